// Package fakeexec is an in-memory Executor for tests. It runs nothing real:
// a command is a Go function, found by the command's text, that writes output,
// reads input and returns an exit code. Everything else is as the contract
// says: the log has offsets and a gap, signals and time-outs end a process,
// IDs are idempotent, and Fault breaks any call at will.
//
// It is for the tests of what stands on top of an Executor (the Router, Run,
// the command line). It is no model of processes: there is no tree, no
// terminal and no environment, and nothing outlives the Executor. What a real
// executor must do is the matter of internal/test/exectest.
package fakeexec

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"sync"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/decided"
	"github.com/corral-exec/corral/internal/origin"
)

// A Program is what a fake command does; it returns the exit code. It must
// return soon after its IO's Context has ended.
type Program func(io *IO) int

// Op is a call that Fault can break.
type Op string

const (
	OpStart      Op = "start"
	OpStarted    Op = "started" // after the process began: the answer gets lost
	OpAttach     Op = "attach"
	OpRead       Op = "read"
	OpWrite      Op = "write"
	OpCloseStdin Op = "close-stdin"
	OpSignal     Op = "signal"
	OpResize     Op = "resize"
	OpWait       Op = "wait"
	OpRemove     Op = "remove"
)

// An Executor runs Programs. The zero Executor knows none. Its fields must not
// change once it is in use.
type Executor struct {
	// Info gives every process its Host, Node, Sandboxed, Dir and Warnings.
	Info corral.Info
	// Origin, if there is one, is every process's.
	Origin *origin.Origin
	// Programs are found by Command.Shell, or by the Args joined by blanks.
	// What is not found exits with 127, as in a shell.
	Programs map[string]Program
	// Fault breaks a call by returning an error for it. Nil: nothing fails.
	Fault func(op Op, id string) error

	mu        sync.Mutex
	processes map[string]*process
	starts    int
	closed    bool
	running   sync.WaitGroup
}

// Start implements corral.Executor.
func (e *Executor) Start(ctx context.Context, cmd corral.Command) (corral.Process, error) {
	if err := cmd.Validate(); err != nil {
		return nil, err
	}
	if err := e.check(ctx, OpStart, cmd.ID); err != nil {
		return nil, err
	}
	p, err := e.process(cmd)
	if err != nil {
		return nil, err
	}
	if err := e.fault(OpStarted, p.info.ID); err != nil {
		return nil, err
	}
	return p, nil
}

func (e *Executor) process(cmd corral.Command) (*process, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, corral.Errorf(corral.ErrUnavailable, "", "the fake executor is closed")
	}
	if p := e.processes[cmd.ID]; p != nil {
		if !sameCommand(p.cmd, cmd) {
			return nil, corral.Errorf(corral.ErrConflict, "use another id", "id %s belongs to another command", cmd.ID)
		}
		return p, nil
	}
	if cmd.ID == "" {
		cmd.ID = corral.NewID()
	}
	e.starts++
	if e.processes == nil {
		e.processes = make(map[string]*process)
	}
	p := newProcess(e, cmd, e.starts)
	e.processes[cmd.ID] = p
	e.running.Go(func() { p.run(e.program(cmd)) })
	return p, nil
}

// sameCommand ignores what only a Router reads.
func sameCommand(a, b corral.Command) bool {
	for _, c := range []*corral.Command{&a, &b} {
		c.Host, c.Node, c.Elevated = "", "", false
		c.Security, c.Ask, c.Approval, c.Decided = "", "", "", decided.About{}
	}
	return reflect.DeepEqual(a, b)
}

func (e *Executor) program(cmd corral.Command) Program {
	text := cmd.Shell
	if len(cmd.Args) > 0 {
		text = strings.Join(cmd.Args, " ")
	}
	if p, ok := e.Programs[text]; ok {
		return p
	}
	return Print("", fmt.Sprintf("fake: %s: not found\n", text), 127)
}

// Attach implements corral.Executor.
func (e *Executor) Attach(ctx context.Context, id string) (corral.Process, error) {
	if err := e.check(ctx, OpAttach, id); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if p := e.processes[id]; p != nil {
		return p, nil
	}
	return nil, corral.Errorf(corral.ErrNotFound, "", "no process %s", id)
}

// Starts is how many commands were really begun.
func (e *Executor) Starts() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.starts
}

// Close kills what runs and waits for it: a fake cannot outlive its program.
func (e *Executor) Close() error {
	e.mu.Lock()
	e.closed = true
	all := make([]*process, 0, len(e.processes))
	for _, p := range e.processes {
		all = append(all, p)
	}
	e.mu.Unlock()
	for _, p := range all {
		p.end(corral.Exit{Code: -1, Signal: corral.SIGKILL, Reason: corral.ReasonExited})
	}
	e.running.Wait()
	return nil
}

// check is what every call does first.
func (e *Executor) check(ctx context.Context, op Op, id string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return e.fault(op, id)
}

func (e *Executor) fault(op Op, id string) error {
	if e.Fault == nil {
		return nil
	}
	return e.Fault(op, id)
}

func (e *Executor) forget(p *process) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.processes[p.info.ID] == p { // else the ID is another's by now
		delete(e.processes, p.info.ID)
	}
}
