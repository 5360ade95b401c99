"""One file per question that the evidence is asked; each answers with findings."""
