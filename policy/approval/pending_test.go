package approval

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/corral-exec/corral"
)

// An approved command runs on the node of the request, and not on another node of its
// pool.
func TestApply(t *testing.T) {
	on := func(host corral.Host, c corral.Command) Record {
		b, err := json.Marshal(Note{Command: c})
		if err != nil {
			t.Fatal(err)
		}
		return Record{ID: "yes", Host: host, Note: b}
	}
	asked := corral.Command{ID: "job", Shell: "true", Node: "n1"}
	call := corral.Command{Shell: "true", Node: "pool:gpu"}
	named := corral.Command{ID: "mine", Shell: "true"}
	for _, tc := range []struct {
		name string
		rec  Record
		cmd  corral.Command
		want corral.Command
	}{
		{"of a pool", on(corral.HostNode, asked), call, corral.Command{ID: "job", Shell: "true", Node: "n1", Approval: "yes"}},
		{"with an id", on(corral.HostNode, asked), named, corral.Command{ID: "mine", Shell: "true", Node: "n1", Approval: "yes"}},
		{"on the gateway", on(corral.HostGateway, corral.Command{ID: "job", Node: "n1"}), named, corral.Command{ID: "mine", Shell: "true", Approval: "yes"}},
		{"of which nothing is noted", Record{ID: "yes", Host: corral.HostNode}, call, corral.Command{Shell: "true", Node: "pool:gpu", Approval: "yes"}},
	} {
		if diff := cmp.Diff(tc.want, tc.rec.Apply(tc.cmd)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}
