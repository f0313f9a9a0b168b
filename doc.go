// Package corral is the contract of Corral, the execution backend that agent
// platforms run their commands on.
//
// A command goes to one of three hosts: a sandbox (a login shell in a hardened
// container), the gateway (this machine) or a node (a paired remote machine).
// All three are an [Executor]; so is the [Router] that chooses between them,
// and so is every wrapper around one. An Executor starts a [Command] and hands
// back a [Process]; the process writes into a [Log] that can be read from any
// offset, while it runs and after; [Process.Wait] tells how it ended as an
// [Exit].
//
//	p, err := router.Start(ctx, corral.Command{Shell: "python3 -m unittest", Timeout: time.Minute})
//	if err != nil {
//		return err // it did not start: errors.Is(err, corral.ErrUnavailable), …
//	}
//	exit, err := p.Wait(ctx) // err: whether the system worked; exit: how the command ended
//
// Package runner does all of it for a caller that only wants the result.
//
// # Three outcomes, never confused
//
// A command that exited, with any code, or that a signal ended, is an Exit. A command
// that could not be started, or may not be, is an error from Start ([ErrInvalid],
// [ErrDenied], [ErrUnavailable]): nothing ran. If Corral cannot know how a command
// ended, Wait returns [ErrLost]. No exit code is ever made up.
//
// # Nothing is tied to this program's life
//
// A process is addressed by its ID. Starting an ID again returns the process
// that it already started; [Executor.Attach] finds a process that an earlier
// life of this program started, with its output and its exit status.
//
// This package imports no implementation. Those are the packages sandbox,
// hostexec and nodeexec, and the command cmd/corral wires them together.
package corral
