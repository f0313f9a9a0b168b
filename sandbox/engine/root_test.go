package engine

import "testing"

func TestKeepsRoot(t *testing.T) {
	remaps := []string{"name=seccomp,profile=default", "name=userns"}
	for _, tt := range []struct {
		info    Info
		runtime string
		want    bool
	}{
		{Info{}, "", false},
		{Info{}, "runc", false},
		{Info{}, "runsc", true},
		{Info{}, "/usr/local/bin/runsc-uds", true},
		{Info{Security: remaps}, "", true},
		{Info{Security: remaps[:1]}, "", false},
		{Info{Rootless: true, Security: remaps}, "", false},
		{Info{Rootless: true}, "runsc", false},
		{Info{}, "kata", false}, // it has not been tried
	} {
		if got := tt.info.KeepsRoot(tt.runtime); got != tt.want {
			t.Errorf("%+v with %q: %v", tt.info, tt.runtime, got)
		}
	}
}
