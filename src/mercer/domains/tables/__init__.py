"""Tables as points: columns of numbers, categories, text and more, from any frame."""
