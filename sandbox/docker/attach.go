package docker

import (
	"io"

	"github.com/docker/docker/api/types"
)

// attached is a container's standard streams: reading yields what it wrote to
// standard output, out of the stream in which the engine mixes both.
type attached struct {
	*io.PipeReader
	conn types.HijackedResponse
}

func (a *attached) Write(p []byte) (int, error) { return a.conn.Conn.Write(p) }

// Close ends both directions, and with them the goroutine that reads.
func (a *attached) Close() error {
	a.conn.Close()
	return a.PipeReader.Close()
}
