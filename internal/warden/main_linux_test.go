package warden

import (
	"os"
	"runtime"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// asWarden is set where this program is to be a warden.
const asWarden = "CORRAL_TEST_AS_WARDEN"

func TestMain(m *testing.M) {
	if os.Getenv(asWarden) != "" {
		go limitProcesses()
		// As in a container. It is of a thread, which is the one that goes on here.
		runtime.LockOSThread()
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			panic(err)
		}
		os.Exit(Main([]string{"-stdio"}, os.Stderr))
	}
	if os.Getenv(asHeadless) != "" {
		loseFirstThread()
	}
	if os.Getenv(asMeddler) != "" {
		os.Exit(meddle())
	}
	goleak.VerifyTestMain(m)
}

// limitProcesses lets this process have no other and no further thread, when it
// is told to.
func limitProcesses() {
	const first = 3
	if unix.SetNonblock(first, true) != nil {
		return
	}
	told := os.NewFile(first, "socket")
	defer told.Close() // which says that it is done
	if _, err := told.Read(make([]byte, 1)); err != nil {
		return
	}
	if err := unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{}); err != nil {
		panic(err)
	}
}
