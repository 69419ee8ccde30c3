"""What an estimator is: its kernel, sample, state, options, plan and messages."""
