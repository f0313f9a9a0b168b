package client

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/session"
)

// EventMissed is the type of an event that says that the gateway no longer has
// some of those that were asked for. Its Seq is the number after which they go
// on.
const EventMissed = api.EventMissed

// EventOptions say which events to follow.
type EventOptions struct {
	// After is the number of the last event that was seen. 0: whatever is
	// kept; negative: what happens from now on.
	After int64
	// AllAgents: not only those of the Client's agent.
	AllAgents bool
	// Once: only those that there are now, and then the sequence ends.
	Once bool
}

// errCut ends events before their end.
var errCut = errors.New("the events were cut")

// maxEvent bounds one event.
const maxEvent = 16 << 20 // an approval has its command several times

// Events follows what happens until ctx ends, or the loop over it does. It goes
// on by itself where it was when the gateway was away; the sequence ends with an
// error when ctx has ended, or the gateway was away for too long.
func (c *Client) Events(ctx context.Context, o EventOptions) iter.Seq2[session.Event, error] {
	return follow(ctx, c, o.After, o.Once, event, func(after int64) call { return eventsCall(o, after) })
}

// follow is what server-sent events bring, as decode has them.
func follow[E any](ctx context.Context, c *Client, after int64, once bool, decode decoder[E], ask func(after int64) call) iter.Seq2[E, error] {
	return func(yield func(E, error) bool) {
		var none E
		after := after
		for w := c.patience(); ; {
			done, cut := false, false
			asked := time.Now()
			err := c.do(ctx, ask(after), func(resp *http.Response) error {
				w.until = time.Time{}
				var err error
				after, err = readEvents(resp.Body, after, decode, func(e E) bool {
					w = c.patience()
					done = !yield(e, nil)
					return !done
				})
				if cut = errors.Is(err, errCut); cut {
					return nil // and not sent again as it was
				}
				return err
			})
			switch no := (*noAnswer)(nil); {
			case done:
				return
			case ctx.Err() != nil:
				yield(none, ctx.Err())
				return
			case err == nil && once && !cut:
				return
			case errors.As(err, &no) || err == nil:
				if time.Since(asked) > lastPause {
					w = c.patience()
				}
				if w.wait(ctx) == nil {
					continue
				}
				if err = ctx.Err(); err == nil {
					err = c.unreachable(errTooLong)
				}
			}
			yield(none, err)
			return
		}
	}
}

func eventsCall(o EventOptions, after int64) call {
	req := call{method: http.MethodGet, path: []string{"events"}, query: url.Values{}}
	if after >= 0 {
		req.query.Set("after", strconv.FormatInt(after, 10))
	}
	if o.AllAgents {
		req.query.Set("agent", api.AllAgents)
	}
	if o.Once {
		req.query.Set("once", "true")
	}
	return req
}

// A decoder reads an event of a kind. After, unless it is 0, is the number after
// which events go on.
type decoder[E any] func(kind string, data []byte) (e E, after int64, err error)

// readEvents reads server-sent events until there are no more, or use has had
// enough, and returns the number of the last. The end of the answer is no error:
// there may be more in the next.
func readEvents[E any](body io.Reader, after int64, decode decoder[E], use func(E) bool) (int64, error) {
	lines := bufio.NewScanner(body)
	lines.Buffer(make([]byte, 0, 4096), maxEvent)
	lines.Split(wholeLines)
	// What is known of an event before its end, which is an empty line: one that was cut is
	// asked for again.
	var kind string
	var data []byte
	id := after
	for lines.Scan() {
		field, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case field == "id":
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil || n < 0 {
				return after, fmt.Errorf("%w: an event has the id %q", api.ErrInternal, value)
			}
			id = n
		case field == "event":
			kind = value
		case field == "data":
			if len(data)+len(value) > maxEvent {
				return after, fmt.Errorf("%w: an event has more than %d bytes", api.ErrInternal, maxEvent)
			}
			data = append(append(data, value...), '\n')
		case field == "" && value == "" && data == nil:
			after, kind = id, ""
		case field == "" && value == "":
			e, next, err := decode(kind, data)
			if err == nil && next < 0 {
				err = fmt.Errorf("%w: events are said to go on after %d", api.ErrInternal, next)
			}
			if err != nil {
				return after, err
			}
			after = cmp.Or(next, id)
			id = after
			if !use(e) {
				return after, nil
			}
			kind, data = "", nil
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return after, corral.Errorf(api.ErrInternal, "", "an event has more than %d bytes", maxEvent)
	case err != nil:
		return after, errCut
	}
	return after, nil
}

// wholeLines splits a stream into lines. What comes after the last end of a line was cut.
func wholeLines(data []byte, atEOF bool) (advance int, line []byte, err error) {
	if advance, line, err = bufio.ScanLines(data, false); atEOF && advance == 0 {
		advance = len(data)
	}
	return advance, line, err
}

func event(kind string, data []byte) (e session.Event, after int64, err error) {
	if kind == EventMissed {
		var m api.Missed
		err = json.Unmarshal(data, &m)
		e, after = session.Event{Type: EventMissed, Seq: m.Next}, m.Next
	} else {
		err = json.Unmarshal(bytes.TrimSpace(data), &e)
	}
	if err != nil {
		return e, 0, fmt.Errorf("%w: an event is not understood: %w", api.ErrInternal, err)
	}
	return e, after, nil
}
