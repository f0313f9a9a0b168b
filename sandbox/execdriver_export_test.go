package sandbox

// For the tests that need package sandbox/docker, which imports this one.

type (
	ExecOptions = execOptions
	ExecDriver  = execDriver
)

var NewExecDriver = newExecDriver
