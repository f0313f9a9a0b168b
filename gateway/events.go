package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/api"
	"github.com/corral-exec/corral/session"
)

// defaultHeartbeat is how often a line is sent on a stream of events on which nothing
// happens, so that both sides and what is between them see that it lives.
const defaultHeartbeat = 15 * time.Second

// events sends what happens as server-sent events. The id of an event is its
// number, with which a client that comes back continues.
func (s *Server) events(w http.ResponseWriter, r *http.Request) error {
	a, err := s.agent(r)
	if err != nil {
		return err
	}
	whose := a.Name()
	if r.URL.Query().Get("agent") == api.AllAgents {
		whose = ""
	}
	after, err := queryInt(r, "after", -1)
	if err != nil {
		return err
	}
	if id := r.Header.Get("Last-Event-ID"); id != "" { // what the client saw is newer than its URL
		if after, err = strconv.ParseInt(id, 10, 64); err != nil || after < 0 {
			return corral.Errorf(corral.ErrInvalid, "send the id of an event that came from here", "the header Last-Event-ID is %q", id)
		}
	}
	if after < 0 {
		after = s.cfg.Sessions.LastEvent()
	}
	once, err := queryBool(r, "once")
	if err != nil {
		return err
	}
	ctx, done, err := s.follow(r.Context())
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
	text := fmt.Sprintf(": events after %d\nid: %d\n\n", after, after)
	for {
		if _, err := w.Write([]byte(text)); err != nil {
			return err
		}
		if err := rc.Flush(); err != nil {
			return err
		}
		if once {
			text, err = s.keptEvents(ctx, whose, after)
			if err == nil {
				_, err = w.Write([]byte(text))
			}
			return err
		}
		if text, after, err = s.nextEvents(ctx, whose, after); err != nil {
			if errors.Is(context.Cause(ctx), errStopping) {
				return nil // a complete answer: the client comes back
			}
			return err
		}
	}
}

// nextEvents is what to send next, and where that ends.
func (s *Server) nextEvents(ctx context.Context, whose string, after int64) (string, int64, error) {
	wait, cancel := context.WithTimeout(ctx, s.heartbeat)
	defer cancel()
	got, err := s.cfg.Sessions.Events(wait, whose, after)
	switch {
	case err == nil:
	case ctx.Err() == nil && wait.Err() != nil:
		// The events of others count as well: or a client that comes back
		// might ask for what is no longer kept.
		return fmt.Sprintf(": nothing new\nid: %d\n\n", max(after, got.Next)), max(after, got.Next), nil
	default:
		return "", after, err
	}
	text, err := eventText(got)
	return text, got.Next, err
}

// keptEvents are those that there are now.
func (s *Server) keptEvents(ctx context.Context, whose string, after int64) (string, error) {
	now, cancel := context.WithCancel(ctx)
	cancel() // there is nothing to wait for
	got, err := s.cfg.Sessions.Events(now, whose, after)
	if err != nil && ctx.Err() == nil && now.Err() != nil {
		return fmt.Sprintf(": nothing new\nid: %d\n\n", max(after, got.Next)), nil
	}
	if err != nil {
		return "", err
	}
	return eventText(got)
}

func eventText(got session.Events) (string, error) {
	text := []byte(nil)
	add := func(id int64, kind string, v any) error {
		data, err := json.Marshal(v)
		if err != nil {
			return fmt.Errorf("%w: cannot encode an event: %w", api.ErrInternal, err)
		}
		text = fmt.Appendf(text, "id: %d\nevent: %s\ndata: %s\n\n", id, kind, data)
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
