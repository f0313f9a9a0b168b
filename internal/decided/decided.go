// Package decided is what Corral's own parts tell each other about a command, and
// its caller may not: what a Guard decided, and that nobody else can know the ID.
package decided

// About is what was decided about a command. Its zero value is nothing.
type About struct {
	// Exec, if there is one, is the program and the arguments that are executed on
	// the gateway or a node to do what the command says, so that what the Guard
	// looked at is what runs.
	Exec []string
	// Grant is what the Guard says to the node that the command goes to: by whose
	// approval it may run there.
	Grant []byte
	// Fresh: the ID was made up for this command a moment ago. The Router asks no
	// host whether it has the ID; some may be far away.
	Fresh bool
}
