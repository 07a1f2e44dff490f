"""How programs are made and run: what is compiled and with which options, what is not, and on how many threads."""
