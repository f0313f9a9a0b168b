package fabric

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/internal/origin"
	"github.com/corral-exec/corral/internal/packed"
)

// WaitStep bounds one OpWait at a node.
const WaitStep = 20 * time.Second

var waitStep = WaitStep // a variable for tests

// MaxGrant bounds the Grant of a command, in bytes.
const MaxGrant = 4 << 10

// Start is the body of OpStart and OpDecide.
type Start struct {
	api.Start
	// Agent is the gateway's agent that the command belongs to.
	Agent string `json:"agent,omitempty"`
	// Grant is Command.Decided.Grant; Decided has no JSON of its own.
	Grant []byte `json:"grant,omitempty"`
	// Read is a first reader, so that no OpRead is needed for it.
	Read *Grant `json:"read,omitempty"`
}

// EncodeStart encodes the body of a start of an agent's command.
func EncodeStart(agent string, cmd corral.Command, read *Grant) ([]byte, error) {
	s := Start{Start: api.NewStart(cmd, false), Agent: agent, Grant: cmd.Decided.Grant, Read: read}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // it is text for a shell, full of < and &
	if err := e.Encode(s); err != nil {
		return nil, err
	}
	return []byte(b.String()), nil
}

// DecodeStart is the reverse. The command is valid, and so is the agent unless it is
// empty.
func DecodeStart(body []byte) (agent string, cmd corral.Command, read *Grant, err error) {
	fail := func(err error) (string, corral.Command, *Grant, error) { return "", corral.Command{}, nil, err }
	s, err := parseStart(body)
	if err != nil {
		return fail(err)
	}
	cmd = s.Command
	if s.Agent != "" {
		if err := corral.ValidateID(s.Agent); err != nil {
			return fail(corral.Errorf(corral.ErrInvalid, corral.Hint(err), "the request to start is of no agent: %w", err))
		}
	}
	if len(cmd.Decided.Grant) > MaxGrant {
		return fail(corral.Errorf(corral.ErrInvalid, "", "the grant of the request to start has %d bytes, more than %d", len(cmd.Decided.Grant), MaxGrant))
	}
	if s.Read != nil {
		if err := s.Read.bound(); err != nil {
			return fail(corral.Errorf(corral.ErrInvalid, "", "the request to start: %w", err))
		}
	}
	return s.Agent, cmd, s.Read, cmd.Validate()
}

// parseStart reads the body of a start into s.Command and s, without checking bounds.
func parseStart(body []byte) (s Start, err error) {
	if err := json.Unmarshal(body, &s); err != nil {
		return s, corral.Errorf(corral.ErrInvalid, "", "the request to start is no JSON: %w", err)
	}
	if s.Command, err = s.Decode(); err != nil {
		return s, err
	}
	s.Command.Decided.Grant = s.Grant
	return s, nil
}

// Signal is the body of OpSignal.
type Signal struct {
	Signal corral.Signal `json:"signal"`
}

// An Answer is a node's answer to a request. At most one field beside Boot is set; none
// means success without a result. At the end of a log it has Exit and Stat.
type Answer struct {
	Boot    string          `json:"boot"`
	Info    *origin.Info    `json:"info,omitempty"`
	Exit    *corral.Exit    `json:"exit,omitempty"`
	Stat    *corral.LogStat `json:"stat,omitempty"`
	Pending bool            `json:"pending,omitempty"`
	// Decision comes from a Guarded. It is the node's claim, and for the caller to
	// interpret.
	Decision json.RawMessage `json:"decision,omitempty"`
	// Refused: this message was not acted upon, because of the message itself and not
	// of the operation.
	Refused Refusal        `json:"refused,omitempty"`
	Error   *api.ErrorBody `json:"error,omitempty"`
	// Epoch is the node's epoch, if the message was refused.
	Epoch uint64 `json:"epoch,omitempty"`
	// Digest is the digest of Info, whose JSON leaves it out.
	Digest string `json:"digest,omitempty"`
}

// answerInfo returns the answer that describes a process.
func answerInfo(p corral.Process) Answer {
	info := origin.InfoOf(p)
	return Answer{Info: &info, Digest: info.Digest}
}

// A Refusal says why a message was not acted upon.
type Refusal string

const (
	RefusedBoot    Refusal = "boot"    // it is for another life of the node's program
	RefusedEpoch   Refusal = "epoch"   // the node does not know its epoch; the answer has the present one
	RefusedVersion Refusal = "version" // the node does not speak its version
	RefusedKey     Refusal = "key"     // not signed by a gateway that the node knows
	RefusedReplay  Refusal = "replay"  // it arrived before, and its answer is forgotten
	RefusedBusy    Refusal = "busy"    // too much at once
)

// Bounds of an answer: the programs and the warnings that it names, and each in bytes.
const (
	maxRefused  = 8
	maxWarnings = 64
	maxText     = 4 << 10
)

// EncodeAnswer bounds the parts of a and encodes it.
func EncodeAnswer(a Answer) []byte {
	if a.Error != nil {
		e := boundError(*a.Error)
		a.Error = &e
	}
	b, err := json.Marshal(a)
	if err == nil && len(b) > MaxAnswer && a.Info != nil {
		info := *a.Info
		info.Warnings = []string{"There were more warnings than fit into an answer; the log of the node has them."}
		a.Info = &info
		b, err = json.Marshal(a)
	}
	if err != nil || len(b) > MaxAnswer {
		e := api.ErrorBody{Code: "internal", Message: fmt.Sprintf("the node's answer of %d bytes cannot be sent: %v", len(b), err)}
		b, _ = json.Marshal(Answer{Boot: a.Boot, Error: &e}) // two strings
	}
	return b
}

// ParseAnswer reads an answer, and checks that its values obey the contract.
func ParseAnswer(b []byte) (Answer, error) {
	var a Answer
	if len(b) > MaxAnswer {
		return a, fmt.Errorf("%w: an answer of %d bytes", ErrMalformed, len(b))
	}
	if err := json.Unmarshal(b, &a); err != nil {
		return Answer{}, fmt.Errorf("%w: the answer: %w", ErrMalformed, err)
	}
	if validateToken(a.Boot) != nil {
		return Answer{}, fmt.Errorf("%w: the node's boot", ErrMalformed)
	}
	if e := a.Exit; e != nil {
		signalled := e.Signal != 0
		switch {
		case signalled && (!e.Signal.Valid() || e.Code != -1),
			!signalled && (e.Code < 0 || e.Code > 255),
			e.Reason != corral.ReasonExited && e.Reason != corral.ReasonTimeout && e.Reason != corral.ReasonOOM:
			return Answer{}, fmt.Errorf("%w: no process ends as %+v", ErrMalformed, *e)
		}
		e.Refused = lines(e.Refused, maxRefused)
		if err := clock(&e.StartedAt, &e.EndedAt); err != nil {
			return Answer{}, err
		}
	}
	if s := a.Stat; s != nil && (s.GapStart < 0 || s.GapEnd < s.GapStart || s.Size < s.GapEnd) {
		return Answer{}, fmt.Errorf("%w: no log is like %+v", ErrMalformed, *s)
	}
	if a.Info != nil {
		a.Info.Notice = corral.JoinNotice(a.Info.Notice)
		a.Info.Warnings = lines(a.Info.Warnings, maxWarnings)
		if err := clock(&a.Info.StartedAt); err != nil {
			return Answer{}, err
		}
	}
	if a.Error != nil && a.Error.Message == "" {
		return Answer{}, fmt.Errorf("%w: an error without text", ErrMalformed)
	}
	return a, nil
}

// clock makes the times of an answer UTC. It refuses those that no clock shows: in UTC
// some have no JSON. The gateway may add a century to the others (see nodeexec), and they
// are still a number of nanoseconds.
func clock(times ...*time.Time) error {
	for _, t := range times {
		if *t = t.UTC(); !t.IsZero() && (t.Year() < 1900 || t.Year() > 2150) {
			return fmt.Errorf("%w: a process of the year %d", ErrMalformed, t.Year())
		}
	}
	return nil
}

// EncodeError returns err in its form for the wire.
func EncodeError(err error) *api.ErrorBody {
	_, body := api.Encode(err)
	e := boundError(body.Error)
	return &e
}

// DecodeError returns the error that a node sent.
func DecodeError(e *api.ErrorBody) error {
	return api.DecodeBody(500, boundError(*e))
}

func boundError(e api.ErrorBody) api.ErrorBody {
	e.Message = line(e.Message, 6<<10)
	e.Hint = line(e.Hint, 1<<10)
	if len(e.Details) > 16<<10 {
		e.Details = nil
	}
	return e
}

// line returns at most n bytes of s, as one line without control characters.
func line(s string, n int) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(clip(s, n), ""))
}

// lines returns at most n texts, each as a line.
func lines(texts []string, n int) []string {
	texts = texts[:min(len(texts), n)]
	for i := range texts {
		texts[i] = line(texts[i], maxText)
	}
	return texts
}

// A Grant is the body of OpRead: the output that a reader accepts.
type Grant struct {
	Reader uint64 `json:"reader"`
	From   int64  `json:"from"`  // the next offset that it expects
	Limit  int64  `json:"limit"` // the offset before which output may be sent
	Most   int    `json:"most,omitempty"`
	// Reset: output after From may be lost; go back to it.
	Reset bool `json:"reset,omitempty"`
	// Single: send one chunk and forget the reader.
	Single bool `json:"single,omitempty"`
	Close  bool `json:"close,omitempty"`
	// Packed: output may come packed.
	Packed bool `json:"packed,omitempty"`
}

// Encode is the body of OpRead.
func (g Grant) Encode() []byte { return mustJSON(g) }

// ParseGrant reads a Grant and bounds it.
func ParseGrant(b []byte) (Grant, error) {
	var g Grant
	if err := json.Unmarshal(b, &g); err != nil {
		return Grant{}, fmt.Errorf("%w: the grant: %w", ErrMalformed, err)
	}
	return g, g.bound()
}

func (g *Grant) bound() error {
	if g.From < 0 || g.From > MaxOffset || g.Limit < 0 || g.Limit > MaxOffset+MaxBody || g.Most < 0 {
		return fmt.Errorf("%w: a grant from %d to %d", ErrMalformed, g.From, g.Limit)
	}
	if g.Most == 0 || g.Most > MaxData {
		g.Most = MaxData
	}
	return nil
}

// Flags of Output and InputAck.
const (
	FlagEnd    = 1 << iota // of the log; of the write
	FlagError              // Data is an error in JSON
	FlagGap                // of InputAck: bytes from Next on have not arrived
	flagPacked             // of Output: Data is a block of package packed; ParseOutput opens it
)

// Output is a message to a reader: the log from From on is Data at Offset,
// which is From unless the log has a gap there. With FlagEnd, Data is an Answer
// that says how the process ended and what the log holds, if that is known.
type Output struct {
	From, Offset int64
	Flags        byte
	Stream       corral.Stream
	Data         []byte
}

const outputHeader = 18

// Append encodes o after b.
func (o Output) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(o.From))
	b = binary.BigEndian.AppendUint64(b, uint64(o.Offset))
	b = append(b, o.Flags, byte(o.Stream))
	return append(b, o.Data...)
}

// Err is the error of a message with FlagError.
func (o Output) Err() error { return parseError(o.Data) }

// ParseOutput reads a message to a reader. It may keep b.
func ParseOutput(b []byte) (Output, error) {
	if len(b) < outputHeader {
		return Output{}, fmt.Errorf("%w: output of %d bytes", ErrMalformed, len(b))
	}
	from, off := binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])
	o := Output{Flags: b[16], Stream: corral.Stream(b[17]), Data: b[outputHeader:]}
	if o.Flags == flagPacked {
		var err error
		if o.Data, err = packed.Open(nil, o.Data, MaxData); err != nil {
			return Output{}, fmt.Errorf("%w: output from %d: %w", ErrMalformed, from, err)
		}
		o.Flags = 0
	}
	switch {
	case from > MaxOffset || off > MaxOffset || off < from, o.Flags&^(FlagEnd|FlagError) != 0,
		o.Flags&FlagError != 0 && len(o.Data) > MaxAnswer,
		o.Flags&FlagError == 0 && len(o.Data) > MaxData,
		o.Flags == 0 && (len(o.Data) == 0 || o.Stream != corral.Stdout && o.Stream != corral.Stderr):
		return Output{}, fmt.Errorf("%w: output from %d at %d, stream %d, %d bytes", ErrMalformed, from, off, o.Stream, len(o.Data))
	}
	o.From, o.Offset = int64(from), int64(off)
	return o, nil
}

// Input is the body of OpOpen and OpWrite: a piece of one write, which has
// Total bytes in all.
type Input struct {
	Write uint64
	Total int64
	Off   int64
	// Abort ends the write at this point. A piece without data asks for the progress.
	Abort bool
	Data  []byte
}

const inputHeader = 25

// Append encodes in after b.
func (in Input) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, in.Write)
	b = binary.BigEndian.AppendUint64(b, uint64(in.Total))
	b = binary.BigEndian.AppendUint64(b, uint64(in.Off))
	flag := byte(0)
	if in.Abort {
		flag = 1
	}
	return append(append(b, flag), in.Data...)
}

// MaxInput bounds the data of one piece of a write: with its header it fits into one
// message.
const MaxInput = MaxData - inputHeader

// ParseInput reads a piece of a write. It keeps b.
func ParseInput(b []byte) (Input, error) {
	if len(b) < inputHeader {
		return Input{}, fmt.Errorf("%w: input of %d bytes", ErrMalformed, len(b))
	}
	total, off := binary.BigEndian.Uint64(b[8:]), binary.BigEndian.Uint64(b[16:])
	in := Input{Write: binary.BigEndian.Uint64(b), Abort: b[24]&1 != 0, Data: b[inputHeader:]}
	if total > math.MaxInt64 || off > total || uint64(len(in.Data)) > total-off || len(in.Data) > MaxInput {
		return Input{}, fmt.Errorf("%w: %d bytes of input at %d of %d", ErrMalformed, len(in.Data), off, total)
	}
	in.Total, in.Off = int64(total), int64(off)
	return in, nil
}

// InputAck reports the progress of a write.
type InputAck struct {
	Done  int64 // handed to the process
	Next  int64 // arrived at the node
	Limit int64 // may be sent
	Flags byte
	Data  []byte
}

const inputAckLen = 25

// Append encodes a after b.
func (a InputAck) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(a.Done))
	b = binary.BigEndian.AppendUint64(b, uint64(a.Next))
	b = binary.BigEndian.AppendUint64(b, uint64(a.Limit))
	return append(append(b, a.Flags), a.Data...)
}

// Err is the error of a message with FlagError.
func (a InputAck) Err() error { return parseError(a.Data) }

// ParseInputAck reads a node's report about a write of total bytes. It keeps b.
func ParseInputAck(b []byte, total int64) (InputAck, error) {
	if len(b) < inputAckLen || len(b) > MaxAnswer {
		return InputAck{}, fmt.Errorf("%w: an acknowledgement of %d bytes", ErrMalformed, len(b))
	}
	done, next, limit := binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:]), binary.BigEndian.Uint64(b[16:])
	if done > next || next > uint64(total) || limit > math.MaxInt64 {
		return InputAck{}, fmt.Errorf("%w: %d bytes handed over and %d arrived of %d", ErrMalformed, done, next, total)
	}
	return InputAck{int64(done), int64(next), int64(limit), b[24], b[inputAckLen:]}, nil
}

func parseError(b []byte) error {
	var e api.ErrorBody
	if err := json.Unmarshal(b, &e); err != nil || e.Message == "" {
		return errors.New("the node reports an error that cannot be read")
	}
	return DecodeError(&e)
}

func encodeError(err error) []byte {
	b, _ := json.Marshal(EncodeError(err)) // strings, and JSON that was made from Go
	return b
}
