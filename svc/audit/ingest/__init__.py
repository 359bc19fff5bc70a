"""Records that another instance wrote, judged before they enter the log."""
