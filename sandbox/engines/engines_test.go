package engines

import (
	"errors"
	"testing"

	"go.uber.org/goleak"

	"github.com/corral-exec/corral"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOpenByName(t *testing.T) {
	for _, name := range []string{Docker, Podman} {
		e, err := Open(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := Open(t.Context(), "lxc"); !errors.Is(err, corral.ErrInvalid) || corral.Hint(err) == "" {
		t.Errorf("Open(lxc) = %v", err)
	}
}

func TestPodmanHost(t *testing.T) {
	for _, tt := range []struct {
		env  map[string]string
		uid  int
		want string
	}{
		{nil, 0, "unix:///run/podman/podman.sock"},
		{map[string]string{"XDG_RUNTIME_DIR": "/run/user/0"}, 0, "unix:///run/podman/podman.sock"},
		{map[string]string{"XDG_RUNTIME_DIR": "/run/user/7"}, 7, "unix:///run/user/7/podman/podman.sock"},
		{map[string]string{"XDG_RUNTIME_DIR": "/run/user/7", "CONTAINER_HOST": "tcp://x:1"}, 7, "tcp://x:1"},
	} {
		if got := podmanHost(func(k string) string { return tt.env[k] }, tt.uid); got != tt.want {
			t.Errorf("podmanHost(%v, %d) = %q, want %q", tt.env, tt.uid, got, tt.want)
		}
	}
}
