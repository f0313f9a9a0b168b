package reach

import (
	"context"
	"fmt"
	"strings"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/session"
)

// Session returns the session with an ID, or with an unambiguous beginning of one. An
// exact ID goes before longer ones that begin with it.
func Session(ctx context.Context, c *client.Client, id string) (*client.Process, error) {
	if err := corral.ValidateID(id); err != nil {
		return nil, err
	}
	list, err := c.Sessions(ctx, false)
	if err != nil {
		return nil, err
	}
	found, err := match(list, id, c.Agent())
	if err != nil {
		return nil, err
	}
	return c.Session(ctx, found)
}

func match(list []session.Status, id, agent string) (string, error) {
	var found []string
	for _, s := range list {
		if s.ID == id {
			return id, nil
		}
		if strings.HasPrefix(s.ID, id) {
			found = append(found, s.ID)
		}
	}
	switch len(found) {
	case 0:
		return "", corral.Errorf(corral.ErrNotFound, "corral ps --all says which there are", "agent %s has no session %s", agent, id)
	case 1:
		return found[0], nil
	}
	const most = 5
	more := ""
	if n := len(found) - most; n > 0 {
		found, more = found[:most], fmt.Sprintf(" and %d more", n)
	}
	return "", corral.Errorf(corral.ErrInvalid, "give more of it", "%s is the beginning of several sessions: %s%s", id, strings.Join(found, ", "), more)
}
