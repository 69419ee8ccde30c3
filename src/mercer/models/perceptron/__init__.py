"""The kernel perceptron and its rules."""
