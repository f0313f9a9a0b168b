package corral

import (
	"context"
	"encoding/json"
	"time"
)

// An Executor runs commands somewhere. Every method may be called from any goroutine. A
// context bounds only the call that it is given to. When it ends, a started command
// goes on; [Command.Timeout] travels with the command and is enforced next to it.
//
// Implementations that hold resources of this program (connections, a helper process)
// are also an io.Closer. Close releases the resources. Commands go on wherever they can
// outlive this program.
type Executor interface {
	// Start begins cmd and returns once it runs. Starting an ID again
	// returns the process it already started, running or ended, and runs
	// nothing; if the two commands differ, the error is ErrConflict.
	//
	// On error nothing was started, except with ErrLost: then it is unknown. Call
	// Attach with the same ID when the executor can be reached again. A program that
	// does not exist or cannot be executed is not an error: as in a shell, the process
	// exits with 127 or 126, and its log says why.
	Start(ctx context.Context, cmd Command) (Process, error)

	// Attach returns a process that was started earlier, also by an earlier life of
	// this program. It never starts anything. The error is ErrNotFound if no such
	// process is known, and ErrUnavailable if the executor cannot tell now.
	Attach(ctx context.Context, id string) (Process, error)
}

// A Process is a command that was started. Every method may be called from
// any goroutine, at any time, also after the process has ended.
type Process interface {
	// Info says what was started, where and when. It does not change.
	Info() Info

	// Log is the output, readable from any offset, now and later.
	Log() Log

	// Write sends p to standard input (or the terminal). It returns when all of p has
	// been handed to the process's side. Otherwise it returns the number of bytes
	// handed over and an error: ErrStdinClosed after CloseStdin or for a command
	// without stdin, ErrEnded when nothing can read it any more, or the context's
	// error.
	Write(ctx context.Context, p []byte) (int, error)

	// CloseStdin gives the process end-of-file on standard input. On a terminal it
	// types the end-of-file character at each call: that ends the current read, and the
	// terminal's input stays open (Run ends it for good). Closing twice is no error.
	CloseStdin(ctx context.Context) error

	// Signal sends s to the whole process tree, including descendants that left the
	// process group or the session. The error is ErrEnded if no process is left.
	Signal(ctx context.Context, s Signal) error

	// Resize sets the size of the terminal. Without a terminal the error is
	// errors.ErrUnsupported.
	Resize(ctx context.Context, s Size) error

	// Wait blocks until the process has ended and its last byte is in the log, and says
	// how it ended. A descendant that keeps the output open delays it by at most
	// DrainLimit. Later output of such a descendant is not recorded; Wait neither kills
	// nor blocks the descendant. The error is ErrLost if it is unknown how the process
	// ended, or the context's.
	Wait(ctx context.Context) (Exit, error)

	// Remove forgets an ended process: its log, its exit status and its ID. ErrRunning
	// if it has not ended. Removing twice is no error. The ID can then be started again
	// as a new process. A handle of the removed process does not act on the new one:
	// its Signal is ErrEnded or ErrNotFound.
	Remove(ctx context.Context) error
}

// DrainLimit is how long output is still read after a command's exit when a descendant
// holds it open.
const DrainLimit = 100 * time.Millisecond

// Info describes a started process.
type Info struct {
	ID  string `json:"id"`
	PID int    `json:"pid"` // in the PID namespace of its host; 0 if unknown

	Host      Host   `json:"host"`           // where it really runs
	Node      string `json:"node,omitempty"` // which node, if Host is HostNode
	Sandboxed bool   `json:"sandboxed"`      // isolated from the machine it runs on

	Dir       string    `json:"cwd"`
	StartedAt time.Time `json:"startedAt"`

	// Notice tells what is the same for every command on that host: that the sandbox is
	// off, and which of the host's own variables commands do not get. It is one line of
	// at most MaxNotice bytes. Empty: nothing to tell.
	Notice string `json:"notice,omitempty"`

	// Warnings are complete sentences about this command, such as which of the
	// call's variables were dropped.
	Warnings []string `json:"warnings,omitempty"`

	// Digest is the Command.Digest of the started command. With it a caller can check
	// whether a process runs the same command, without starting anything. It is empty
	// if unknown, as on a node of an earlier version. It is not in JSON, since values
	// of the environment could be guessed from it.
	Digest string `json:"-"`

	// Enforced is the part of the Domain that the kernel enforces; nil: nothing.
	Enforced *Enforced `json:"enforced,omitempty"`
}

// An Exit says how a process ended. Corral saw the process end; otherwise the result is
// ErrLost. In JSON its Code and Signal are an ExitStatus.
type Exit struct {
	Code   int    `json:"-"` // 0–255; -1 when a signal ended it
	Signal Signal `json:"-"` // 0 unless a signal ended it

	// Reason says why it ended.
	Reason Reason `json:"reason"`

	StartedAt time.Time `json:"startedAt"`
	EndedAt   time.Time `json:"endedAt"` // when the process ended, by the clock of its machine

	// Orphans are the PIDs of the tree that still ran when the process ended, in the
	// PID namespace of Info.PID: up to a thousand, ascending. It is nil if there were
	// none, or if the executor cannot tell (see docs/reference/exec-driver.md).
	Orphans []int `json:"orphans,omitempty"`

	// Refused are the first few programs that the kernel refused to execute, because of
	// Info.Enforced. They are paths on the machine where the process ran.
	Refused []string `json:"refused,omitempty"`
}

// ExitStatus is an Exit in the JSON of results.
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

type (
	exitRest Exit // without its methods
	exitJSON struct {
		ExitStatus
		*exitRest
	}
)

// MarshalJSON implements json.Marshaler.
func (e Exit) MarshalJSON() ([]byte, error) {
	return json.Marshal(exitJSON{e.Status(), (*exitRest)(&e)})
}

// UnmarshalJSON implements json.Unmarshaler.
func (e *Exit) UnmarshalJSON(b []byte) error {
	*e = Exit{Code: -1}
	return json.Unmarshal(b, &exitJSON{ExitStatus{ExitCode: &e.Code, Signal: (*int)(&e.Signal)}, (*exitRest)(e)})
}

// Success reports whether the process exited by itself with code 0.
func (e Exit) Success() bool { return e.Code == 0 && e.Signal == 0 && e.Reason == ReasonExited }

// String describes the exit for people: "exit code 3", "signal SIGKILL (9)", "timed
// out, signal SIGTERM (15)", "out of memory, signal SIGKILL (9)".
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

// Reason is why a process ended. The set is closed.
type Reason string

const (
	ReasonExited  Reason = "exited"  // by itself, or by a signal from any sender
	ReasonTimeout Reason = "timeout" // its Command.Timeout expired and the tree was killed
	// ReasonOOM: memory ran out, in the limit of the place or on the machine, and the
	// process or one that it waited for was killed. All of this holds: it ended by
	// SIGKILL, or with 137, as a shell reports that; it was not killed on request; and
	// the kernel counted such a kill in its cgroup while it ran (the kernel does not
	// say which process it killed). Where the kernel does not count, the same end is
	// ReasonExited.
	ReasonOOM Reason = "oom"
)

// LimitOutput is the default bound of a command's log.
var LimitOutput = LogLimit{Head: 4 << 20, Tail: 28 << 20}

// A Log is a process's output in the order in which it arrived. Offsets count
// bytes of standard output and standard error together, from 0, and are never
// reused. A log is bounded: when it is full, bytes in the middle are dropped
// (the gap), and the first Head and the last Tail bytes are kept.
type Log interface {
	// Read stores output at or after offset off in buf: at most len(buf) bytes, all of
	// one stream. It blocks until there is output; io.EOF means that the log has ended
	// before off. If off is in the gap, the chunk's Offset is the first byte after the
	// gap, so Chunk.Offset - off is the exact number of bytes left out.
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

// Valid reports whether a log can have this limit.
func (l LogLimit) Valid() bool { return min(l.Head, l.Tail) >= 0 && max(l.Head, l.Tail) < 1<<62 }

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
