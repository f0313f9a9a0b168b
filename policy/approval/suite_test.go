package approval_test

import (
	"testing"

	"github.com/corral-exec/corral/internal/test/desktest"
	"github.com/corral-exec/corral/policy/approval"
)

// directory is a World in files, for one desk.
type directory struct{ dir string }

func (w directory) Open(_ string, opts approval.Options) (*approval.Desk, error) {
	opts.Dir = w.dir
	return approval.OpenDesk(opts)
}

func TestDesk(t *testing.T) {
	desktest.Run(t, desktest.Config{Gateways: 1, New: func(t testing.TB) desktest.World { return directory{t.TempDir()} }})
}
