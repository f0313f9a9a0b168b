// Functions without a body are of the runtime: see accounts_linux.go.
