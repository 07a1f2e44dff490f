"""Deep models: repeated blocks recognised in the trace, a few of them searched, what is found stated of every one."""
