"""What a fit will take, said before it: facts, costs, ways and rules."""
