package gateway

import (
	"encoding/json"
	"net/http"

	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/internal/turn"
	"github.com/corral-exec/corral/session"
)

// exec calls the tool exec. A client that prefers events gets the output as it comes,
// if the command was started; otherwise the tool's result, as without.
func (s *Server) exec(w http.ResponseWriter, r *http.Request) error {
	if accepted(r, api.TypeJSON) == api.TypeJSON {
		return s.tool("exec")(w, r)
	}
	call, err := s.toolCall(w, r, "exec")
	if err != nil {
		return err
	}
	if err := call.withSession(); err != nil {
		return err
	}
	q, err := parseLogQuery(r, api.TypeJSON)
	if err != nil {
		return err
	}
	ctx, done, err := s.follow(r)
	if err != nil {
		return err
	}
	defer done()
	present, away := whilePresent(r) // not ctx: a call does not end because the gateway drains
	defer away()

	begun := make(chan *session.Session, 1)
	present = session.WithBegun(present, func(found *session.Session) {
		turn.Offer(begun, found)
	})
	var result any
	var failed error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer s.recovered("POST /v1/exec", &failed)
		result, failed = call.run(present)
	}()
	var found *session.Session
	select {
	case found = <-begun:
	case <-ended:
		select {
		case found = <-begun:
		default: // nothing was started
			if failed != nil {
				return failed
			}
			return writeJSON(w, http.StatusOK, result)
		}
	}
	err = s.streamBegun(ctx, w, found, q, http.StatusOK)
	<-ended // with the session; or, when the client is gone, soon
	return err
}

// withSession gives the call a session of its own, if it names none: so that it is
// kept when the command ends, and the rest of the output can be asked for.
func (c *toolCall) withSession() error {
	if id, ok := c.args["sessionId"]; ok && string(id) != `""` && string(id) != "null" {
		return nil
	}
	id, err := json.Marshal(session.NewID())
	if err != nil {
		return err
	}
	c.args["sessionId"] = id
	c.body, err = json.Marshal(c.args)
	return err
}
