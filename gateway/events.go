package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/gateway/access"
	"github.com/corral-exec/corral/session"
)

// defaultHeartbeat is how often a line is sent on a stream of events on which nothing
// happens, so that both sides and what is between them see that it lives.
const defaultHeartbeat = 15 * time.Second

// events sends what happens as server-sent events. The id of an event is its
// number, with which a client that comes back continues.
func (s *Server) events(w http.ResponseWriter, r *http.Request) error {
	whose := ""
	if r.URL.Query().Get("agent") != api.AllAgents {
		a, err := s.agent(r)
		if err != nil {
			return err
		}
		whose = a.Name()
	}
	g := access.From(r.Context())
	after, once, err := streamQuery(r)
	if err != nil {
		return err
	}
	if after < 0 {
		after = s.cfg.Sessions.LastEvent()
	}
	return s.stream(w, r, after, once, func(ctx context.Context, after int64) (string, int64, error) {
		got, err := s.cfg.Sessions.Events(ctx, whose, after)
		if err != nil {
			return "", max(after, got.Next), err
		}
		got.Events = slices.DeleteFunc(got.Events, func(e session.Event) bool { return !g.Sees(e.Agent) })
		text, err := eventText(got)
		return text, got.Next, err
	})
}

// streamQuery is where a stream is to begin, negative if the request does not say,
// and whether it ends after the events until now.
func streamQuery(r *http.Request) (after int64, once bool, err error) {
	after, err = queryInt(r, "after", -1)
	if err != nil {
		return after, false, err
	}
	if after, err = lastEventID(r, after); err != nil {
		return after, false, err
	}
	once, err = queryBool(r, "once")
	return after, once, err
}

// lastEventID is the id of the last event that a client saw, which is newer than its
// URL. Without one it is def.
func lastEventID(r *http.Request, def int64) (int64, error) {
	text := r.Header.Get("Last-Event-ID")
	if text == "" {
		return def, nil
	}
	id, ok := api.ParseOffset(text)
	if !ok {
		return 0, corral.Errorf(corral.ErrInvalid, "send the id of an event that came from here", "the header Last-Event-ID is %q", text)
	}
	return id, nil
}

// A source waits for what comes after a number, and returns it as events and
// where it ends. When its context ends first, that is its error, and next is
// valid all the same.
type source func(ctx context.Context, after int64) (text string, next int64, err error)

// stream sends events until the client goes away or the gateway stops; with
// once only those that there are now.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, after int64, once bool, from source) error {
	ctx, done, err := s.follow(r)
	if err != nil {
		return err
	}
	defer done()
	w.Header().Set("Content-Type", api.TypeEvents)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
	rc := http.NewResponseController(w)

	// The first id is where the stream begins: who is cut off before the
	// first event misses none.
	text := string(api.AppendComment(nil, fmt.Sprintf("events after %d", after), after))
	for {
		if _, err := w.Write([]byte(text)); err != nil {
			return err
		}
		if err := rc.Flush(); err != nil {
			return err
		}
		limit := s.heartbeat
		if once {
			limit = 0
		}
		text, after, err = next(ctx, limit, after, from)
		switch {
		case err == nil && once:
			_, err = w.Write([]byte(text))
			return err
		case errors.Is(context.Cause(ctx), errStopping) && !once && err != nil:
			return nil // a complete answer: the client comes back
		case err != nil:
			return err
		}
	}
}

// next is what to send next, and where that ends.
func next(ctx context.Context, limit time.Duration, after int64, from source) (string, int64, error) {
	wait, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	text, next, err := from(wait, after)
	if (err == nil && text == "") || err != nil && ctx.Err() == nil && wait.Err() != nil {
		// What is not for this client counts as well: or one that comes back
		// might ask for what is no longer kept.
		after = max(after, next)
		return string(api.AppendComment(nil, "nothing new", after)), after, nil
	}
	return text, next, err
}

func eventText(got session.Events) (string, error) {
	text := []byte(nil)
	add := func(id int64, kind string, v any) error {
		data, err := json.Marshal(v)
		if err != nil {
			return fmt.Errorf("%w: cannot encode an event: %w", api.ErrInternal, err)
		}
		text = append(append(api.AppendEventHead(text, id, kind), data...), "\n\n"...)
		return nil
	}
	if got.Missed {
		next := got.Next
		if len(got.Events) > 0 {
			next = got.Events[0].Seq - 1
		}
		if err := add(next, api.EventMissed, api.Missed{Next: next}); err != nil {
			return "", err
		}
	}
	for _, e := range got.Events {
		if err := add(e.Seq, e.Type, e); err != nil {
			return "", err
		}
	}
	return string(text), nil
}
