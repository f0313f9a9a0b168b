// Package decided has the fields of a command that only Corral itself may set, and
// its caller may not: the decision of a Guard, and whether the ID is new.
package decided

// About is the decision about a command. Its zero value decides nothing.
type About struct {
	// Exec is the program and its arguments, with the paths that the Guard decided
	// on. It is executed on the gateway or a node in place of the command. Nil: the
	// command itself is executed.
	Exec []string
	// Grant is the Guard's message to the command's node: the approval by which the
	// command may run there.
	Grant []byte
	// Fresh: the ID is new, so the Router does not search the hosts for it.
	Fresh bool
}
