package corral

import (
	"context"
	"time"
)

// An Executor runs commands somewhere. Every method may be called from any
// goroutine. A context bounds the call it is given to and nothing else: when
// it ends, a started command goes on ([Command.Timeout] is what travels with
// the command and is enforced next to it).
//
// Implementations that hold resources of this program (connections, a helper
// process) are also an io.Closer; Close lets go of them and leaves commands
// running wherever they can outlive this program.
type Executor interface {
	// Start begins cmd and returns once it runs. Starting an ID again
	// returns the process it already started, running or ended, and runs
	// nothing; if the two commands differ, the error is ErrConflict.
	//
	// On error nothing was started, unless the error is ErrLost: then it
	// is not known, and Attach with the same ID tells once the executor
	// can be reached again. A program that does not exist or cannot be
	// executed is not an error: as in a shell, the process exits with 127
	// or 126 and its log says why.
	Start(ctx context.Context, cmd Command) (Process, error)

	// Attach returns a process that was started earlier, also by an
	// earlier life of this program. It never starts anything. The error
	// is ErrNotFound if no such process is known, and ErrUnavailable if
	// that cannot be told now.
	Attach(ctx context.Context, id string) (Process, error)
}

// A Process is a command that was started. Every method may be called from
// any goroutine, at any time, also after the process has ended.
type Process interface {
	// Info says what was started, where and when. It does not change.
	Info() Info

	// Log is the output, readable from any offset, now and later.
	Log() Log

	// Write sends p to standard input (or the terminal). It returns when
	// all of p has been handed to the process's side, or with how much was
	// and why the rest was not: ErrStdinClosed after CloseStdin or for a
	// command without stdin, ErrEnded when nothing can read it any more,
	// or the context's error.
	Write(ctx context.Context, p []byte) (int, error)

	// CloseStdin gives the process end-of-file on standard input. On a
	// terminal it types the end-of-file character, each time it is called:
	// that ends what is read at the moment, and the terminal's input goes on
	// (Run ends it for good). Closing twice is no error.
	CloseStdin(ctx context.Context) error

	// Signal sends s to the whole process tree, including descendants
	// that left the process group or the session. ErrEnded if there is
	// nothing left to signal.
	Signal(ctx context.Context, s Signal) error

	// Resize sets the size of the terminal; errors.ErrUnsupported without
	// one.
	Resize(ctx context.Context, s Size) error

	// Wait blocks until the process has ended and its last byte is in the
	// log, and says how it ended. A descendant that keeps the output open
	// delays it by at most DrainLimit; what such a descendant writes later
	// is not recorded, and the descendant is neither killed nor blocked by
	// that. The error is ErrLost if it cannot be known how the process
	// ended, or the context's.
	Wait(ctx context.Context) (Exit, error)

	// Remove forgets an ended process: its log, its exit status and its ID.
	// ErrRunning if it has not ended. Removing twice is no error. The ID can
	// be started again, as something new; a handle that removed what had it
	// before does nothing to that: its Signal is ErrEnded or ErrNotFound.
	Remove(ctx context.Context) error
}

// DrainLimit is how long after a command's exit its output is still read when
// a descendant holds it open.
const DrainLimit = 100 * time.Millisecond

// Info describes a started process.
type Info struct {
	ID  string `json:"id"`
	PID int    `json:"pid"` // in the PID namespace of where it runs; 0 if that is not known

	Host      Host   `json:"host"`           // where it really runs
	Node      string `json:"node,omitempty"` // which node, if Host is HostNode
	Sandboxed bool   `json:"sandboxed"`      // isolated from the machine it runs on

	Dir       string    `json:"cwd"`
	StartedAt time.Time `json:"startedAt"`

	// Notice says shortly, in one line of at most MaxNotice bytes, what is the
	// same for every command there: that the sandbox is off, and which of the
	// place's own variables the command does not get. Empty: nothing.
	Notice string `json:"notice,omitempty"`

	// Warnings are complete sentences about this command, such as which of the
	// call's variables were dropped.
	Warnings []string `json:"warnings,omitempty"`

	// Digest is Command.Digest of what was started: who finds a process
	// can tell by it whether a command is the same, and need not start anything
	// for that. Empty: it is not known, as of a node of an earlier version. It is
	// not in JSON, since values of the environment could be guessed from it.
	Digest string `json:"-"`

	// Enforced is what the kernel keeps it to, of what was decided: nil if to
	// nothing.
	Enforced *Enforced `json:"enforced,omitempty"`
}

// An Exit says how a process ended. Every Exit is of a process that was seen
// to end; see ErrLost for those that were not.
type Exit struct {
	Code   int    `json:"exitCode"` // 0–255; -1 when a signal ended it
	Signal Signal `json:"signal"`   // 0 unless a signal ended it

	// Reason says on whose account it ended.
	Reason Reason `json:"reason"`

	StartedAt time.Time `json:"startedAt"`
	EndedAt   time.Time `json:"endedAt"` // when the process ended, by the clock of where it ran

	// Orphans are the PIDs of what the process left running when it ended, as
	// Info.PID is one: all of its tree, up to a thousand, ascending. It is
	// nil if there was none, and where that cannot be told (see
	// docs/reference/exec-driver.md).
	Orphans []int `json:"orphans,omitempty"`

	// Refused are the programs that the kernel refused to execute for it, by
	// Info.Enforced: the first few, as paths of the machine that it ran on.
	Refused []string `json:"refused,omitempty"`
}

// ExitStatus is how a process ended, as results have it in JSON.
type ExitStatus struct {
	ExitCode   *int    `json:"exitCode"`   // null unless the process was seen to exit by itself
	Signal     *int    `json:"signal"`     // null unless a signal ended it
	SignalName *string `json:"signalName"` // such as "SIGKILL"
}

// Status is the ExitStatus of a process that was seen to end.
func (e Exit) Status() ExitStatus {
	if e.Signal == 0 {
		return ExitStatus{ExitCode: &e.Code}
	}
	number, name := int(e.Signal), e.Signal.String()
	return ExitStatus{Signal: &number, SignalName: &name}
}

// Success reports whether the process exited by itself with code 0.
func (e Exit) Success() bool { return e.Code == 0 && e.Signal == 0 && e.Reason == ReasonExited }

// String is as a shell user would put it: "exit code 3", "signal SIGKILL (9)",
// "timed out, signal SIGTERM (15)", "out of memory, signal SIGKILL (9)".
func (e Exit) String() string {
	how := "exit code " + itoa(e.Code)
	if e.Signal != 0 {
		how = "signal " + e.Signal.String() + " (" + itoa(int(e.Signal)) + ")"
	}
	switch e.Reason {
	case ReasonTimeout:
		return "timed out, " + how
	case ReasonOOM:
		return "out of memory, " + how
	}
	return how
}

// Reason is on whose account a process ended. The set is closed.
type Reason string

const (
	ReasonExited  Reason = "exited"  // by itself, or by a signal from whomever
	ReasonTimeout Reason = "timeout" // its Command.Timeout expired and the tree was killed
	// ReasonOOM: it, or what it waited for, was killed because no memory was left
	// in its place's limit or on the machine. It ended by SIGKILL, or with 137, as
	// a shell reports that; it was not killed on request; and the kernel has counted
	// such a kill in its cgroup meanwhile (the kernel does not say which process it
	// was). Where that is not counted, the same end is ReasonExited.
	ReasonOOM Reason = "oom"
)

// LimitOutput is the default bound of a command's log.
var LimitOutput = LogLimit{Head: 4 << 20, Tail: 28 << 20}

// A Log is a process's output in the order in which it arrived. Offsets count
// bytes of standard output and standard error together, from 0, and are never
// reused. A log is bounded: when it is full, bytes in the middle are dropped
// (the gap), and the first Head and the last Tail bytes are kept.
type Log interface {
	// Read returns output at or after offset off, at most len(buf) bytes of
	// it and all of one stream, stored in buf. It blocks until there is
	// some; io.EOF means that the log has ended before off. If off is in
	// the gap, the chunk's Offset is where the output goes on after it, so
	// Chunk.Offset - off is the exact number of bytes left out.
	Read(ctx context.Context, off int64, buf []byte) (Chunk, error)

	// Stat says how long the log is now.
	Stat(ctx context.Context) (LogStat, error)
}

// A Chunk is a run of output bytes of one stream. Bytes are as the process
// wrote them: chunks may cut a character in two (see package runner).
type Chunk struct {
	Offset int64
	Stream Stream
	Data   []byte
}

// Next is the offset after the chunk.
func (c Chunk) Next() int64 { return c.Offset + int64(len(c.Data)) }

// LogStat describes a log at one moment.
type LogStat struct {
	Size     int64 `json:"size"`     // bytes written by the process so far, kept or not
	GapStart int64 `json:"gapStart"` // bytes [GapStart, GapEnd) were dropped;
	GapEnd   int64 `json:"gapEnd"`   // the two are equal when nothing was
	Ended    bool  `json:"ended"`    // nothing will be added
}

// Gap is the number of bytes that were dropped.
func (s LogStat) Gap() int64 { return s.GapEnd - s.GapStart }

// LogLimit bounds a log, in bytes. A zero field means that of LimitOutput.
type LogLimit struct {
	Head int64 `json:"head"`
	Tail int64 `json:"tail"`
}

// Stream tells standard output from standard error.
type Stream uint8

const (
	Stdout Stream = 1 // also a terminal's output, and both streams when merged
	Stderr Stream = 2
)

func (s Stream) String() string {
	switch s {
	case Stdout:
		return "stdout"
	case Stderr:
		return "stderr"
	}
	return "stream " + itoa(int(s))
}

// Size is that of a terminal, in character cells.
type Size struct {
	Rows uint16 `json:"rows"`
	Cols uint16 `json:"cols"`
}

// DefaultSize is a terminal's when none is given.
var DefaultSize = Size{Rows: 30, Cols: 120}
