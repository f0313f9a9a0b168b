package warden

import (
	"net"
	"os"
	"runtime"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral/internal/warden/wire"
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

// overPipe serves a gateway over a pipe without any buffer, until the test closes its end.
func overPipe(t *testing.T, opts Options) (gateway net.Conn, served <-chan error) {
	t.Helper()
	s, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	gateway, theirs := net.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(wire.NewFrames(theirs, theirs, theirs)) }()
	return gateway, ended
}
