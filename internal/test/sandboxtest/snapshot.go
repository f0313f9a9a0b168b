package sandboxtest

import (
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/runner"
)

// IsLogin is shell text that succeeds in a login shell, which has read its profile.
const IsLogin = `case $(tr -d '\0' </proc/$$/cmdline) in /bin/sh-lc*) ;; *) false ;; esac`

// WaitForSnapshot runs commands until they are spared the login profile.
func WaitForSnapshot(t testing.TB, x corral.Executor) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; {
		r, err := runner.Run(t.Context(), x, corral.Command{Shell: IsLogin}, runner.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if !r.Exit.Success() {
			return
		}
		if time.Now().After(end) {
			t.Fatal("there is no snapshot of the login profile")
		}
		time.Sleep(50 * time.Millisecond)
	}
}
