"""Events to states, findings, rival explanations and a conclusion; reads no file, prints nothing."""
