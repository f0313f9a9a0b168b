package docker

import (
	"errors"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/sandbox/engine"
)

// What engines say, word for word.
func TestStartError(t *testing.T) {
	const oci = "OCI runtime exec failed: exec failed: unable to start container process: "
	const old = "OCI runtime exec failed: exec failed: container_linux.go:380: starting container process caused: "
	for _, test := range []struct {
		said string
		kind error // nil: the program's failure
		code int
		text string
	}{
		{oci + `exec: "no-such": executable file not found in $PATH: unknown` + "\r\n", nil, 127, `"no-such": executable file not found in $PATH`},
		{old + `exec: "no-such": executable file not found in $PATH: unknown`, nil, 127, `"no-such": executable file not found in $PATH`},
		{oci + `exec: "/no-such": stat /no-such: no such file or directory: unknown`, nil, 127, `"/no-such": stat /no-such: no such file or directory`},
		{oci + `exec: "/workspace": permission denied: unknown`, nil, 126, `"/workspace": permission denied`},
		{oci + `exec: "/workspace/file/x": stat /workspace/file/x: not a directory: unknown: Are you trying to mount a directory onto a file (or vice-versa)? Check if the specified host path exists and is the expected type`, nil, 126, `"/workspace/file/x": stat /workspace/file/x: not a directory`},
		{oci + `exec /prog: exec format error: unknown`, nil, 126, `exec /prog: exec format error`},
		{oci + `chdir to cwd ("/missing") set in config.json failed: no such file or directory: unknown`, corral.ErrDir, 0, `cannot use the working directory: chdir to cwd ("/missing"): no such file or directory`},
		{oci + `chdir to cwd ("/f") set in config.json failed: not a directory: unknown: Are you trying to mount a directory onto a file (or vice-versa)? Check`, corral.ErrDir, 0, `cannot use the working directory: chdir to cwd ("/f"): not a directory`},
		// A program's name is no error of the engine's.
		{oci + `exec: "chdir to cwd (": executable file not found in $PATH: unknown`, nil, 127, `"chdir to cwd (": executable file not found in $PATH`},
		{"unable to find user nosuch: no matching entries in passwd file\r\n", corral.ErrUnavailable, 0, "cannot run a command in the container: unable to find user nosuch: no matching entries in passwd file"},
		{"", corral.ErrUnavailable, 0, "cannot run a command in the container: "},
		{"\xff\n\x00two \x1b lines", corral.ErrUnavailable, 0, "cannot run a command in the container: \uFFFD two lines"},
	} {
		err := startError(test.said)
		var failure *engine.ExecFailure
		if errors.As(err, &failure) != (test.kind == nil) || test.kind != nil && !errors.Is(err, test.kind) || err.Error() != test.text {
			t.Errorf("%q:\n  %v\n  not %q (%v)", test.said, err, test.text, test.kind)
			continue
		}
		if failure != nil && failure.Code != test.code {
			t.Errorf("%q: code %d, not %d", test.said, failure.Code, test.code)
		}
		if strings.ContainsAny(err.Error(), "\r\n") {
			t.Errorf("%q: more than one line", err.Error())
		}
	}
}
