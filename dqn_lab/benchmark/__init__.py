"""`dqn-benchmark`: how fast a rundef trains, what each part of an update takes, and what memory it needs."""
