package daemon

import (
	"errors"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/gateway/access"
	"github.com/corral-exec/corral/sandbox"
)

func TestQuotasWithin(t *testing.T) {
	const gib = 1 << 30
	box := func(name, owner string, limits ...sandbox.Limits) sandbox.Sandbox {
		s := sandbox.Sandbox{Name: name, Owner: owner}
		for _, l := range limits {
			s.Boxes = append(s.Boxes, sandbox.Box{Description: sandbox.Description{Limits: l}})
		}
		return s
	}
	small := sandbox.Limits{Memory: gib, CPUs: 1}
	list := []sandbox.Sandbox{
		box("a1", "a-1", small), box("a2", "a-2", small, small), box("a3", "a-3"), // the third has no container
		box("b1", "b-1", small), box("shared", "", small),
	}
	coming := map[string]wanted{"a4": {"a-4", small}, "b2": {"b-2", small}, "a1": {"a-1", small}}
	for _, tt := range []struct {
		name  string
		quota api.Quota
		box   string
		want  sandbox.Limits
		err   error
		text  string
	}{
		{"sandboxes, one too many", api.Quota{MaxSandboxes: 3}, "a3", small, api.ErrTooMany, "4 containers"},
		{"sandboxes, just", api.Quota{MaxSandboxes: 4}, "a3", small, nil, ""},
		{"its own does not count", api.Quota{MaxSandboxes: 3}, "a2", small, nil, ""},
		{"memory, one too many", api.Quota{MaxMemory: 5*gib - 1}, "a3", small, api.ErrTooMany, "5368709120 bytes"},
		{"memory, just", api.Quota{MaxMemory: 5 * gib}, "a3", small, nil, ""},
		{"memory without a limit", api.Quota{MaxMemory: 9 * gib}, "a3", sandbox.Limits{CPUs: 1}, corral.ErrDenied, "has no limit"},
		{"processors, too many", api.Quota{MaxCPUs: 4.5}, "a3", small, api.ErrTooMany, "5 processors"},
		{"processors, just", api.Quota{MaxCPUs: 4.5}, "a3", sandbox.Limits{Memory: gib, CPUs: 0.5}, nil, ""},
		{"processors without a limit", api.Quota{MaxCPUs: 9}, "a3", sandbox.Limits{Memory: gib}, corral.ErrDenied, "has no limit"},
	} {
		q := &quotas{coming: coming}
		err := q.within(&access.Grant{Name: "k", Agents: []string{"a-*"}, Quota: tt.quota}, list, tt.box, tt.want)
		if !errors.Is(err, tt.err) || err != nil && (!strings.Contains(err.Error(), tt.text) || corral.Hint(err) == "") {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.text)
		}
	}
}
