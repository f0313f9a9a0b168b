package fabric

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/confine"
	"github.com/corral-exec/corral/internal/origin"
)

// What is said under an agreement, and is said often, is in the encoding of
// Protocol Buffers: JSON takes longer than all of the cryptography. A field with
// its zero value is not there, and one that is not known is passed over. No such
// message begins like JSON does.

// A Body is what a request says.
type Body interface {
	// Encode is the body of a request, which is made under an agreement or
	// signed.
	Encode(agreed bool) ([]byte, error)
}

// Raw is a Body as it is.
type Raw []byte

// Encode implements Body.
func (r Raw) Encode(bool) ([]byte, error) { return r, nil }

// A StartRequest is the Body of OpStart and OpDecide.
type StartRequest struct {
	Agent   string // of the gateway, whose command it is
	Command corral.Command
	Read    *Grant // may be nil; see Start
}

// Encode implements Body.
func (s *StartRequest) Encode(agreed bool) ([]byte, error) {
	if agreed {
		return s.binary(), nil
	}
	return EncodeStart(s.Agent, s.Command, s.Read)
}

// Encode implements Body.
func (g Grant) Encode(agreed bool) ([]byte, error) {
	if agreed {
		return g.binary(), nil
	}
	return json.Marshal(g)
}

// encodeAnswer is EncodeAnswer for a request that may be one under an agreement.
func encodeAnswer(a Answer, agreed bool) []byte {
	if agreed {
		if e, ok := a.binary(); ok && len(e) <= MaxAnswer {
			return e
		}
	}
	return EncodeAnswer(a)
}

func isJSON(b []byte) bool { return len(b) > 0 && b[0] == '{' }

// encoder appends fields.
type encoder []byte

func (e *encoder) num(n protowire.Number, v uint64) {
	if v != 0 {
		*e = protowire.AppendVarint(protowire.AppendTag(*e, n, protowire.VarintType), v)
	}
}

func (e *encoder) bool(n protowire.Number, v bool) { e.num(n, protowire.EncodeBool(v)) }

func (e *encoder) time(n protowire.Number, t time.Time) {
	if !t.IsZero() {
		e.num(n, protowire.EncodeZigZag(t.UnixNano()))
	}
}

func (e *encoder) str(n protowire.Number, s string) {
	if s != "" {
		e.item(n, s)
	}
}

// item is str for a list, of which an item may be empty.
func (e *encoder) item(n protowire.Number, s string) {
	*e = protowire.AppendString(protowire.AppendTag(*e, n, protowire.BytesType), s)
}

func (e *encoder) list(n protowire.Number, list []string) {
	for _, s := range list {
		e.item(n, s)
	}
}

func (e *encoder) message(n protowire.Number, m encoder) {
	*e = protowire.AppendBytes(protowire.AppendTag(*e, n, protowire.BytesType), m)
}

// decode calls num and raw with the fields of b, one of which may be there
// several times. The last error that raw returns is that of decode.
func decode(b []byte, num func(n protowire.Number, v uint64), raw func(n protowire.Number, v []byte) error) error {
	for len(b) > 0 {
		n, typ, k := protowire.ConsumeTag(b)
		if k < 0 {
			return fmt.Errorf("%w: the tag of a field", ErrMalformed)
		}
		b = b[k:]
		var err error
		switch typ {
		case protowire.VarintType:
			var v uint64
			if v, k = protowire.ConsumeVarint(b); k >= 0 {
				num(n, v)
			}
		case protowire.BytesType:
			var v []byte
			if v, k = protowire.ConsumeBytes(b); k >= 0 {
				err = raw(n, v)
			}
		default:
			k = protowire.ConsumeFieldValue(n, typ, b)
		}
		if k < 0 {
			return fmt.Errorf("%w: field %d", ErrMalformed, n)
		}
		if err != nil {
			return err
		}
		b = b[k:]
	}
	return nil
}

func unixNano(v uint64) time.Time { return time.Unix(0, protowire.DecodeZigZag(v)).UTC() }

// text is as JSON would have it.
func text(b []byte) string { return strings.ToValidUTF8(string(b), "\ufffd") }

func noBytes(protowire.Number, []byte) error { return nil }

func (g *Grant) binary() encoder {
	var e encoder
	e.num(1, g.Reader)
	e.num(2, uint64(g.From))
	e.num(3, uint64(g.Limit))
	e.num(4, uint64(g.Most))
	e.bool(5, g.Reset)
	e.bool(6, g.Single)
	e.bool(7, g.Close)
	return e
}

func decodeGrant(b []byte) (g Grant, err error) {
	err = decode(b, func(n protowire.Number, v uint64) {
		switch n {
		case 1:
			g.Reader = v
		case 2:
			g.From = int64(v)
		case 3:
			g.Limit = int64(v)
		case 4:
			g.Most = int(v)
		case 5:
			g.Reset = v != 0
		case 6:
			g.Single = v != 0
		case 7:
			g.Close = v != 0
		}
	}, noBytes)
	return g, err
}

func (s *StartRequest) binary() encoder {
	cmd := &s.Command
	e := make(encoder, 0, 256+len(cmd.Shell))
	e.str(1, cmd.ID)
	e.str(2, cmd.Shell)
	e.list(3, cmd.Args)
	e.str(4, cmd.Dir)
	for _, k := range slices.Sorted(maps.Keys(cmd.Env)) {
		e.item(5, k+"="+cmd.Env[k])
	}
	e.list(6, cmd.PathPrepend)
	e.bool(7, cmd.Stdin)
	if cmd.TTY != nil {
		e.bool(8, true)
		e.num(9, uint64(cmd.TTY.Rows))
		e.num(10, uint64(cmd.TTY.Cols))
	}
	e.bool(11, cmd.MergeStderr)
	e.num(12, uint64(cmd.Timeout))
	e.num(13, protowire.EncodeZigZag(int64(cmd.Grace)))
	e.num(14, uint64(cmd.Log.Head))
	e.num(15, uint64(cmd.Log.Tail))
	e.str(16, string(cmd.Host))
	e.str(17, cmd.Node)
	e.bool(18, cmd.Elevated)
	e.str(19, cmd.Security)
	e.str(20, cmd.Ask)
	e.str(21, cmd.Approval)
	e.str(23, string(cmd.Decided.Grant))
	e.str(24, s.Agent)
	if s.Read != nil {
		e.message(25, s.Read.binary())
	}
	e.str(26, cmd.Description)
	return e
}

func decodeStart(b []byte) (s StartRequest, err error) {
	cmd := &s.Command
	var tty bool
	var size corral.Size
	err = decode(b, func(n protowire.Number, v uint64) {
		switch n {
		case 7:
			cmd.Stdin = v != 0
		case 8:
			tty = v != 0
		case 9:
			size.Rows = uint16(v)
		case 10:
			size.Cols = uint16(v)
		case 11:
			cmd.MergeStderr = v != 0
		case 12:
			cmd.Timeout = time.Duration(v)
		case 13:
			cmd.Grace = time.Duration(protowire.DecodeZigZag(v))
		case 14:
			cmd.Log.Head = int64(v)
		case 15:
			cmd.Log.Tail = int64(v)
		case 18:
			cmd.Elevated = v != 0
		}
	}, func(n protowire.Number, v []byte) (err error) {
		switch n {
		case 1:
			cmd.ID = string(v)
		case 2:
			cmd.Shell = string(v)
		case 3:
			cmd.Args = append(cmd.Args, string(v))
		case 4:
			cmd.Dir = string(v)
		case 5:
			name, value, ok := strings.Cut(string(v), "=")
			if _, again := cmd.Env[name]; !ok || again {
				return corral.Errorf(corral.ErrInvalid, "write NAME=value, each name once", "the environment of the request to start holds %q", v)
			}
			if cmd.Env == nil {
				cmd.Env = map[string]string{}
			}
			cmd.Env[name] = value
		case 6:
			cmd.PathPrepend = append(cmd.PathPrepend, string(v))
		case 16:
			cmd.Host = corral.Host(v)
		case 17:
			cmd.Node = string(v)
		case 19:
			cmd.Security = string(v)
		case 20:
			cmd.Ask = string(v)
		case 21:
			cmd.Approval = string(v)
		case 23:
			cmd.Decided.Grant = v
		case 24:
			s.Agent = string(v)
		case 25:
			var g Grant
			g, err = decodeGrant(v)
			s.Read = &g
		case 26:
			cmd.Description = string(v)
		}
		return err
	})
	if tty {
		cmd.TTY = &size
	}
	return s, err
}

// binary is the answer; false if it has something that is said in JSON alone.
func (a *Answer) binary() (e encoder, ok bool) {
	if a.Decision != nil || a.Refused != "" || a.Error != nil || a.Epoch != 0 {
		return nil, false
	}
	e = make(encoder, 0, 256)
	e.str(1, a.Boot)
	if a.Info != nil {
		e.message(2, infoBinary(a.Info))
	}
	if x := a.Exit; x != nil {
		var m encoder
		m.num(1, protowire.EncodeZigZag(int64(x.Code)))
		m.num(2, uint64(x.Signal))
		m.str(3, string(x.Reason))
		m.time(4, x.StartedAt)
		m.time(5, x.EndedAt)
		for _, pid := range x.Orphans {
			m = protowire.AppendVarint(protowire.AppendTag(m, 6, protowire.VarintType), uint64(pid))
		}
		m.list(7, x.Refused)
		e.message(3, m)
	}
	if s := a.Stat; s != nil {
		var m encoder
		m.num(1, uint64(s.Size))
		m.num(2, uint64(s.GapStart))
		m.num(3, uint64(s.GapEnd))
		m.bool(4, s.Ended)
		e.message(4, m)
	}
	e.bool(5, a.Pending)
	e.str(6, a.Digest)
	return e, true
}

func infoBinary(i *origin.Info) encoder {
	var m encoder
	m.str(1, i.ID)
	m.num(2, uint64(i.PID))
	m.str(3, string(i.Host))
	m.str(4, i.Node)
	m.bool(5, i.Sandboxed)
	m.str(6, i.Dir)
	m.time(7, i.StartedAt)
	m.list(8, i.Warnings)
	if o := i.Origin; o != nil {
		var n encoder
		n.str(1, o.Agent)
		n.str(2, o.Command)
		n.bool(3, o.TTY)
		n.bool(4, o.Stdin)
		n.bool(5, o.Merged)
		n.num(6, protowire.EncodeZigZag(int64(o.Grace)))
		m.message(9, n)
	}
	if e := i.Enforced; e != nil {
		m.num(10, e.Number())
		m.str(11, e.Hint)
	}
	m.str(12, i.Notice)
	return m
}

// maxRefused bounds the programs that an answer names.
const maxRefused = 8

func decodeAnswer(b []byte) (a Answer, err error) {
	err = decode(b, func(n protowire.Number, v uint64) {
		if n == 5 {
			a.Pending = v != 0
		}
	}, func(n protowire.Number, v []byte) error {
		switch n {
		case 1:
			a.Boot = string(v)
		case 2:
			i, err := decodeInfo(v)
			a.Info = &i
			return err
		case 3:
			var x corral.Exit
			a.Exit = &x
			return decode(v, func(n protowire.Number, v uint64) {
				switch n {
				case 1:
					x.Code = int(protowire.DecodeZigZag(v))
				case 2:
					x.Signal = corral.Signal(v)
				case 4:
					x.StartedAt = unixNano(v)
				case 5:
					x.EndedAt = unixNano(v)
				case 6:
					x.Orphans = append(x.Orphans, int(v))
				}
			}, func(n protowire.Number, v []byte) error {
				switch n {
				case 3:
					x.Reason = corral.Reason(v)
				case 7:
					if len(x.Refused) < maxRefused {
						x.Refused = append(x.Refused, text(v))
					}
				}
				return nil
			})
		case 4:
			var s corral.LogStat
			a.Stat = &s
			return decode(v, func(n protowire.Number, v uint64) {
				switch n {
				case 1:
					s.Size = int64(v)
				case 2:
					s.GapStart = int64(v)
				case 3:
					s.GapEnd = int64(v)
				case 4:
					s.Ended = v != 0
				}
			}, noBytes)
		case 6:
			a.Digest = text(v)
		}
		return nil
	})
	return a, err
}

func decodeInfo(b []byte) (i origin.Info, err error) {
	hint := ""
	defer func() {
		if i.Enforced != nil {
			i.Enforced.Hint = hint
		}
	}()
	err = decode(b, func(n protowire.Number, v uint64) {
		switch n {
		case 2:
			i.PID = int(v)
		case 5:
			i.Sandboxed = v != 0
		case 7:
			i.StartedAt = unixNano(v)
		case 10:
			i.Enforced = confine.FromNumber(v)
		}
	}, func(n protowire.Number, v []byte) error {
		switch n {
		case 1:
			i.ID = text(v)
		case 3:
			i.Host = corral.Host(text(v))
		case 4:
			i.Node = text(v)
		case 6:
			i.Dir = text(v)
		case 8:
			i.Warnings = append(i.Warnings, text(v))
		case 11:
			hint = text(v)
		case 12:
			i.Notice = text(v)
		case 9:
			o := origin.Origin{}
			i.Origin = &o
			return decode(v, func(n protowire.Number, v uint64) {
				switch n {
				case 3:
					o.TTY = v != 0
				case 4:
					o.Stdin = v != 0
				case 5:
					o.Merged = v != 0
				case 6:
					o.Grace = time.Duration(protowire.DecodeZigZag(v))
				}
			}, func(n protowire.Number, v []byte) error {
				switch n {
				case 1:
					o.Agent = text(v)
				case 2:
					o.Command = text(v)
				}
				return nil
			})
		}
		return nil
	})
	return i, err
}
