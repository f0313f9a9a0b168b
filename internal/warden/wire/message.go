package wire

import (
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// Version of the protocol. A peer with another major number is refused; new
// optional behaviour is a Feature.
const Version = 1

// MaxMessage bounds an encoded message, in bytes. It holds the largest command
// of the contract (2 MiB) at its least favourable encoding.
const MaxMessage = 6 << 20

// Type says what a message is. Requests carry a number in Req, which the
// answer repeats; events have none.
type Type uint64

const (
	// Requests, gateway to warden. Answered by OK or Error, unless another
	// answer is named.
	Hello      Type = 1  // Version, Features, Epoch, StartedAt (of the connection); answered by Hello (with PID and StartedAt of the warden), then one Item a process, then OK
	Start      Type = 2  // ID Args Env Dir Flags Size Timeout Grace Tag Domain, fds; answered by Started
	Attach     Type = 3  // ID Offset; answered by Started with fds
	Signal     Type = 4  // ID Signal
	Resize     Type = 5  // ID Rows Cols
	CloseStdin Type = 6  // ID Offset (frames: after that many input bytes)
	Keep       Type = 7  // ID, two fds: a relay pipe to hand back on Attach
	Forget     Type = 8  // Args: IDs whose output and exit status are safe elsewhere; no answer
	Shutdown   Type = 9  // end the warden if nothing runs and nothing is unacknowledged
	Input      Type = 10 // frames: ID Offset Data; acknowledged by InputAck
	OutputAck  Type = 11 // frames: ID Offset: bytes before it are safe; no answer
	Dial       Type = 12 // Port Timeout: connect to a TCP port of the loopback interface; answered by Dialled; see FeatureDial

	// Both ways, where no descriptor can be passed: the bytes of a connection that Dial
	// made. Stream is the number of that request. No answers.
	PortData  Type = 13 // Stream Offset Data; FlagEOF: nothing follows
	PortAck   Type = 14 // Stream Limit: bytes before it may be sent
	PortClose Type = 15 // Stream Text: the connection is given up, and why

	// Request, gateway to warden.
	EndAfter Type = 16 // Timeout: the warden ends then, and its container with all that runs in it; 0: it does not. See FeatureEndAfter

	// Answers and events, warden to gateway.
	OK       Type = 32
	Error    Type = 33 // Code Text
	Started  Type = 34 // ID PID Flags StartedAt Tag Offset Enforced Text (why not all of the domain is) Login
	Item     Type = 35 // as Started, and as Exited if it has ended
	Exited   Type = 36 // event: ID ExitCode Signal Reason Text StartedAt EndedAt Args (PIDs of what it left running, decimal) Refused
	Output   Type = 37 // event, frames: ID Offset Stream Data; FlagEOF: nothing follows
	InputAck Type = 38 // event, frames: ID Offset Limit: input before Offset has arrived; FlagEOF: it is not read any more
	Terminal Type = 39 // ahead of the answer to Start with FlagTTY, with its Req: one fd, the terminal; see FeatureTerminalFirst
	Identify Type = 40 // ahead of all else, where the kernel does not say who dials: Tag is a secret of the warden's
	Dialled  Type = 41 // one fd, the connected TCP socket; where none can be passed, Limit of what may be sent as PortData. The warden sends none before a PortAck
)

// SecretSize is how long the secret of Identify is at least, in bytes.
const SecretSize = 32

// FeatureTerminalFirst in a gateway's Hello: it takes the terminal of a new
// process in a message of its own, which the warden sends before it makes the
// process. Where the kernel passes no descriptor, nothing has run then.
const FeatureTerminalFirst = "terminal-first"

// FeatureOneWay in a gateway's Hello: descriptors reach the warden, and it sends none
// back. The gateway opens its pipes again by name, and what passes a terminal travels
// in messages.
const FeatureOneWay = "one-way"

// FeatureDomain in a warden's Hello: it knows the Domain of a Start, and puts it in
// force or says why not.
const FeatureDomain = "domain"

// FeatureDial in a warden's Hello: it knows Dial.
const FeatureDial = "dial"

// FeatureEndAfter in a warden's Hello: it knows EndAfter.
const FeatureEndAfter = "end-after"

// FeaturePacked in either Hello: on a byte stream, its sender takes Packed for Data.
const FeaturePacked = "packed"

// PortWindow bounds what of one direction of PortData may be on its way, in bytes.
const PortWindow = 128 << 10

// MaxPorts bounds the connections of a warden whose bytes travel as PortData.
const MaxPorts = 64

// MaxDials bounds the connections that a warden makes at a time. It refuses more with
// CodeUnavailable.
const MaxDials = 256

// DialLimit bounds how long a warden tries to connect to a port, whatever Timeout says.
const DialLimit = 5 * time.Second

// MaxRefused bounds the programs that Exited names.
const MaxRefused = 8

// Flags of Start, Started, Item, Output and InputAck.
const (
	FlagStdin   uint64 = 1 << iota // standard input is open
	FlagTTY                        // on a terminal
	FlagMerge                      // one pipe for both output streams
	FlagEnded                      // the process has ended
	FlagEOF                        // end of this direction
	FlagRelay                      // a relay pipe is kept
	FlagAdopted                    // its warden was killed: of its input and output nothing is kept, and how it ends cannot be known
	FlagLogin                      // of Start: a login shell may be spared its profile, see package login
	FlagMore                       // of Input: more of it follows at once, so that it need not be acknowledged by itself
)

// Reasons of Exited.
const (
	ReasonExited  uint64 = 1
	ReasonTimeout uint64 = 2
	ReasonOOM     uint64 = 3
	ReasonUnknown uint64 = 4 // how it ended is not known; Text says why
)

// WardenKilled begins the Text of ReasonUnknown where it is known why.
const WardenKilled = "its warden was killed"

// Code classifies an Error, in the terms of the contract.
type Code uint64

const (
	CodeInvalid     Code = 1
	CodeUnavailable Code = 2
	CodeNotFound    Code = 3
	CodeDir         Code = 4
	CodeEnded       Code = 5
	CodeUnsupported Code = 6
	CodeStdinClosed Code = 7
	CodeVersion     Code = 8
	CodeBusy        Code = 9
	CodeRefused     Code = 10 // Dial: nothing listens on the port
	CodeTimeout     Code = 11 // Dial: no connection within the time limit
)

// A Message is every message: which fields one has is said at its Type. A field
// with its zero value is not sent.
type Message struct {
	Type      Type     // 1
	Req       uint64   // 2
	ID        string   // 3
	Args      []string // 4
	Env       []string // 5, as NAME=value
	Dir       string   // 6
	Flags     uint64   // 7
	Rows      uint64   // 8
	Cols      uint64   // 9
	Timeout   uint64   // 10, ns; 0 none
	Grace     uint64   // 11, ns; 0 kills at once
	Tag       []byte   // 12, opaque to the warden, kept with the process
	PID       uint64   // 13
	ExitCode  uint64   // 14
	Signal    uint64   // 15, Linux number
	Reason    uint64   // 16
	StartedAt uint64   // 17, Unix ns
	EndedAt   uint64   // 18, Unix ns
	Code      Code     // 19
	Text      string   // 20
	Offset    uint64   // 21
	Stream    uint64   // 22, 1 stdout, 2 stderr
	Data      []byte   // 23
	Version   uint64   // 24
	Features  []string // 25
	Epoch     string   // 26, unguessable, new for each connection; on a byte stream in every message to the warden
	Limit     uint64   // 27, offset up to which input may be sent
	Domain    []byte   // 28, a confine.Domain
	Enforced  uint64   // 29, what of it is in force: confine.Enforced.Number
	Refused   []string // 30, programs that were refused by it
	Port      uint64   // 31, TCP, 1 to 65535
	Login     string   // 32, of Started: why no snapshot is kept of what the login profile leaves
	Packed    []byte   // 33, in place of Data: a block of package packed; see FeaturePacked
}

// Window bounds the output of one process that is not acknowledged, and the
// input, in bytes.
const Window = 512 << 10

// MaxOrphans bounds the PIDs that Exited names.
const MaxOrphans = 1024

// MaxTag bounds Message.Tag, in bytes.
const MaxTag = 8 << 10

// Append encodes m after b.
func (m *Message) Append(b []byte) []byte {
	num := func(n protowire.Number, v uint64) {
		if v != 0 {
			b = protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), v)
		}
	}
	str := func(n protowire.Number, v string) {
		b = protowire.AppendString(protowire.AppendTag(b, n, protowire.BytesType), v)
	}
	opt := func(n protowire.Number, v string) {
		if v != "" {
			str(n, v)
		}
	}
	raw := func(n protowire.Number, v []byte) {
		if len(v) > 0 {
			b = protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), v)
		}
	}
	num(1, uint64(m.Type))
	num(2, m.Req)
	opt(3, m.ID)
	for _, a := range m.Args {
		str(4, a)
	}
	for _, e := range m.Env {
		str(5, e)
	}
	opt(6, m.Dir)
	num(7, m.Flags)
	num(8, m.Rows)
	num(9, m.Cols)
	num(10, m.Timeout)
	num(11, m.Grace)
	raw(12, m.Tag)
	num(13, m.PID)
	num(14, m.ExitCode)
	num(15, m.Signal)
	num(16, m.Reason)
	num(17, m.StartedAt)
	num(18, m.EndedAt)
	num(19, uint64(m.Code))
	opt(20, m.Text)
	num(21, m.Offset)
	num(22, m.Stream)
	raw(23, m.Data)
	num(24, m.Version)
	for _, f := range m.Features {
		str(25, f)
	}
	opt(26, m.Epoch)
	num(27, m.Limit)
	raw(28, m.Domain)
	num(29, m.Enforced)
	for _, f := range m.Refused {
		str(30, f)
	}
	num(31, m.Port)
	opt(32, m.Login)
	raw(33, m.Packed)
	return b
}

// ErrMalformed is the error of Parse.
var ErrMalformed = errors.New("malformed message")

// Parse decodes b. The message's Data and Packed are part of b; nothing else of it is kept.
func Parse(b []byte) (*Message, error) {
	if len(b) > MaxMessage {
		return nil, fmt.Errorf("%w: %d bytes, more than %d", ErrMalformed, len(b), MaxMessage)
	}
	m := new(Message)
	for len(b) > 0 {
		n, typ, k := protowire.ConsumeTag(b)
		if k < 0 {
			return nil, fmt.Errorf("%w: field tag", ErrMalformed)
		}
		b = b[k:]
		switch typ {
		case protowire.VarintType:
			v, k := protowire.ConsumeVarint(b)
			if k < 0 {
				return nil, fmt.Errorf("%w: field %d", ErrMalformed, n)
			}
			b = b[k:]
			m.setNumber(n, v)
		case protowire.BytesType:
			v, k := protowire.ConsumeBytes(b)
			if k < 0 {
				return nil, fmt.Errorf("%w: field %d", ErrMalformed, n)
			}
			b = b[k:]
			m.setBytes(n, v)
		default:
			k := protowire.ConsumeFieldValue(n, typ, b)
			if k < 0 {
				return nil, fmt.Errorf("%w: field %d", ErrMalformed, n)
			}
			b = b[k:]
		}
	}
	if m.Type == 0 {
		return nil, fmt.Errorf("%w: no type", ErrMalformed)
	}
	return m, nil
}

func (m *Message) setNumber(n protowire.Number, v uint64) {
	switch n {
	case 1:
		m.Type = Type(v)
	case 2:
		m.Req = v
	case 7:
		m.Flags = v
	case 8:
		m.Rows = v
	case 9:
		m.Cols = v
	case 10:
		m.Timeout = v
	case 11:
		m.Grace = v
	case 13:
		m.PID = v
	case 14:
		m.ExitCode = v
	case 15:
		m.Signal = v
	case 16:
		m.Reason = v
	case 17:
		m.StartedAt = v
	case 18:
		m.EndedAt = v
	case 19:
		m.Code = Code(v)
	case 21:
		m.Offset = v
	case 22:
		m.Stream = v
	case 24:
		m.Version = v
	case 27:
		m.Limit = v
	case 29:
		m.Enforced = v
	case 31:
		m.Port = v
	}
}

func (m *Message) setBytes(n protowire.Number, v []byte) {
	switch n {
	case 3:
		m.ID = string(v)
	case 4:
		m.Args = append(m.Args, string(v))
	case 5:
		m.Env = append(m.Env, string(v))
	case 6:
		m.Dir = string(v)
	case 12:
		m.Tag = append([]byte(nil), v...)
	case 20:
		m.Text = string(v)
	case 23:
		m.Data = v[:len(v):len(v)]
	case 25:
		m.Features = append(m.Features, string(v))
	case 26:
		m.Epoch = string(v)
	case 28:
		m.Domain = append([]byte(nil), v...)
	case 30:
		m.Refused = append(m.Refused, string(v))
	case 32:
		m.Login = string(v)
	case 33:
		m.Packed = v[:len(v):len(v)]
	}
}
