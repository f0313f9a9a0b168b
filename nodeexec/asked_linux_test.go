package nodeexec_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/test/fakeexec"
)

// Who names a node does not pay for others that are away.
func TestSelectAsksWhomItMayMean(t *testing.T) {
	r := newRig(t)
	const away = 20
	for i := range away {
		r.pair(fmt.Sprintf("away%d", i), "")
	}
	r.open()
	r.serve(&fakeexec.Executor{})
	r.node()
	for _, tc := range []struct {
		name  string
		kind  error
		asked uint64
	}{
		{nodeID, nil, 0},
		{"pool:gpu", corral.ErrUnavailable, 0},
		{"nobody", corral.ErrUnavailable, 0},
		{"away", corral.ErrUnavailable, away},
	} {
		before := r.conn.Stats().OutMsgs
		_, _, err := r.fabric.Select(t.Context(), tc.name)
		if asked := r.conn.Stats().OutMsgs - before; asked != tc.asked || !errors.Is(err, tc.kind) {
			t.Errorf("%s: %d nodes were asked, not %d: %v", tc.name, asked, tc.asked, err)
		}
	}
}
