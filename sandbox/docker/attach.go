package docker

import (
	"bufio"

	"github.com/docker/docker/api/types"

	"github.com/corral-exec/corral"
)

// attached is a container's standard streams: reading yields what it wrote to
// standard output, out of the stream in which the engine mixes both.
type attached struct {
	out  frames
	conn types.HijackedResponse
}

// attachedBuffer is how much is read from the engine at once, in bytes.
const attachedBuffer = 128 << 10

func newAttached(conn types.HijackedResponse) *attached {
	return &attached{out: frames{r: bufio.NewReaderSize(conn.Reader, attachedBuffer)}, conn: conn}
}

func (a *attached) Read(p []byte) (int, error) {
	for {
		n, stream, err := a.out.Read(p)
		if n > 0 && stream != int(corral.Stdout) {
			continue
		}
		return n, err
	}
}

func (a *attached) Write(p []byte) (int, error) { return a.conn.Conn.Write(p) }

// Close ends both directions.
func (a *attached) Close() error {
	a.conn.Close()
	return nil
}
