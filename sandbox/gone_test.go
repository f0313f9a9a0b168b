package sandbox

import (
	"errors"
	"testing"

	"github.com/corral-exec/corral/internal/wardenexec"
)

// Why a container has ended is said as far as it is known. Engines note that some
// process in it ran out of memory for as long as it is there.
func TestGone(t *testing.T) {
	const plain = "the warden has ended"
	for _, tt := range []struct {
		c    Container
		want string
	}{
		{Container{Exit: 137, OOM: true}, plain + ": there was no memory left in the sandbox, or for it"},
		{Container{Exit: 2, OOM: true}, plain + ": its init ended by itself, with code 2; something in it had been killed because there was no memory left"},
		{Container{Exit: 1}, plain + ": its init ended by itself, with code 1"},
		{Container{Exit: 137}, plain},
		{Container{}, plain},
	} {
		if err := new(box).gone(tt.c); !errors.Is(err, wardenexec.ErrGone) || err.Error() != tt.want {
			t.Errorf("%+v: %v, want %s", tt.c, err, tt.want)
		}
	}
}
