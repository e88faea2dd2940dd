"""What scripts/run-tests is made of: the suites, how they are built, and the queue in which their tests run."""
