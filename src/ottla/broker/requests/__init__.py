"""From a frame to an answer: the order of a connection, dispatch, refusals, logins."""
