package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/session"
)

// headerGap says which bytes of the output are missing in the middle of a body,
// as offsets from-to, to being the first that is there again.
const headerGap = "Corral-Gap"

// output sends what a command has written so far as plain bytes. Ranges are
// offsets of the log; a range that reaches into what the log has dropped is
// answered with the part of it that is there.
func (s *Server) output(w http.ResponseWriter, r *http.Request, found *session.Session) error {
	var only corral.Stream
	switch v := r.URL.Query().Get("stream"); v {
	case "", "all":
	case "stdout":
		only = corral.Stdout
	case "stderr":
		only = corral.Stderr
	default:
		return badQuery("stream", v, "use stdout, stderr or all")
	}
	ctx, done, err := s.follow(r)
	if err != nil {
		return err
	}
	defer done()
	stat, err := found.Log().Stat(ctx)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", api.TypeBytes)
	h.Set("Cache-Control", "no-store")
	from, to, status := int64(0), stat.Size, http.StatusOK
	if only == 0 {
		h.Set("Accept-Ranges", "bytes")
		rng, ok, err := parseRange(r.Header.Get("Range"), stat)
		if err != nil {
			h.Set("Content-Range", fmt.Sprintf("bytes */%d", stat.Size))
			_, body := api.Encode(err)
			return writeJSON(w, http.StatusRequestedRangeNotSatisfiable, body)
		}
		if ok {
			from, to, status = rng.from, rng.to, http.StatusPartialContent
			h.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, to-1, stat.Size))
		}
		// A log that grows may drop what was announced.
		if (ok || stat.Gap() == 0) && stat.Ended {
			h.Set("Content-Length", strconv.FormatInt(to-from, 10))
		}
	}
	if status == http.StatusOK && stat.Gap() > 0 {
		h.Set(headerGap, fmt.Sprintf("%d-%d", stat.GapStart, stat.GapEnd))
	}
	w.WriteHeader(status)
	return s.copyOutput(ctx, w, &reader{log: found.Log(), pace: s.pace, ended: stat.Ended}, from, to, only)
}

func (s *Server) copyOutput(ctx context.Context, w io.Writer, log *reader, from, to int64, only corral.Stream) error {
	large := largeBuffers.Get().(*[api.HeaderLen + api.MaxFrame]byte)
	defer largeBuffers.Put(large)
	for from < to {
		c, err := log.Read(ctx, from, large[:min(int64(len(large)), to-from)])
		if errors.Is(err, io.EOF) || err == nil && c.Offset >= to {
			return nil
		}
		if err != nil {
			return err
		}
		data := c.Data[:min(int64(len(c.Data)), to-c.Offset)]
		if only == 0 || c.Stream == only {
			s.metrics.logBytes.Add(float64(len(data)))
			if _, err := w.Write(data); err != nil {
				return err
			}
		}
		from = c.Next()
	}
	return nil
}

// A byteRange is [from, to).
type byteRange struct{ from, to int64 }

// parseRange reads the header of a request for one range. Anything else is
// ignored, as RFC 9110 has it: all is sent.
func parseRange(header string, stat corral.LogStat) (_ byteRange, ok bool, err error) {
	spec, isBytes := strings.CutPrefix(header, "bytes=")
	first, last, dash := strings.Cut(spec, "-")
	if !isBytes || !dash || strings.Contains(last, ",") {
		return byteRange{}, false, nil
	}
	from, err1 := strconv.ParseUint(first, 10, 62)
	to, err2 := strconv.ParseUint(last, 10, 62)
	rng := byteRange{int64(from), int64(to) + 1}
	switch {
	case first == "" && err2 == nil: // the last bytes
		rng = byteRange{max(0, stat.Size-int64(to)), stat.Size}
	case err1 == nil && last == "":
		rng.to = stat.Size
	case err1 != nil || err2 != nil || from > to:
		return byteRange{}, false, nil
	}
	rng.to = min(rng.to, stat.Size)
	if stat.Gap() > 0 {
		if rng.from >= stat.GapStart {
			rng.from = max(rng.from, stat.GapEnd)
		} else {
			rng.to = min(rng.to, stat.GapStart)
		}
	}
	if rng.from >= rng.to {
		return byteRange{}, false, corral.Errorf(corral.ErrInvalid, "see log/stat for what is kept", "the log has nothing in %s", header)
	}
	return rng, true, nil
}
