package wardenexec

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral/internal/state/atomicfile"
	"github.com/corral-exec/corral/internal/warden/wire"
)

// AcceptSecret is Accept for a warden in gVisor: there the kernel shows no process but
// gVisor's own, so the warden begins by a secret. The first that dials is the warden,
// since nothing else runs there before it was spoken to; its secret is kept in a file, and
// later ones have to know it.
func (l *Listener) AcceptSecret(ctx context.Context, check func(*unix.Ucred) error, file string) (*wire.Packets, error) {
	var refused error
	for {
		conn, err := l.Accept(ctx, check)
		if err != nil {
			return nil, errors.Join(err, refused)
		}
		if err = checkSecret(conn, file); err == nil {
			conn.SetOneWay()
			return conn, nil
		}
		refused = fmt.Errorf("what dialled is not the warden: %w", err)
		conn.Close() // it may be closed
	}
}

// secretLimit bounds how long the warden may take to say its secret, which it does at once.
const secretLimit = time.Second

// checkSecret takes the first message of a connection, before anything is said on it.
func checkSecret(conn wire.Conn, file string) error {
	late := time.AfterFunc(secretLimit, func() { conn.Close() })
	m, fds, err := conn.Recv()
	for _, fd := range fds {
		unix.Close(fd)
	}
	if !late.Stop() || err != nil {
		return fmt.Errorf("it does not say who it is: %w", err)
	}
	if m.Type != wire.Identify || len(m.Tag) < wire.SecretSize {
		return errors.New("it does not say who it is")
	}
	known, err := os.ReadFile(file)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return atomicfile.Write(file, m.Tag, atomicfile.Options{})
	case err != nil:
		return err
	case subtle.ConstantTimeCompare(known, m.Tag) == 0:
		return errors.New("it does not know the warden's secret")
	}
	return nil
}
