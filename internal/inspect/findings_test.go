package inspect

import (
	"strings"
	"testing"

	"github.com/corral-exec/corral/internal/doctor"
	"github.com/corral-exec/corral/internal/reach"
)

// A problem of a node that is online is found, before what is only away.
func TestNodesWithProblems(t *testing.T) {
	f := nodes(reach.Nodes{Listen: []string{"x"}, Online: 1, Offline: 1, Away: []string{"gone"}, Problems: []string{"builder: another program has its key"}})
	if f.Status != doctor.Warn || !strings.Contains(f.Meaning, "builder: another program") {
		t.Errorf("%+v", f)
	}
}
