package broker

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/corral-exec/corral/internal/turn"
)

// Every program that can connect can cause log lines. These bound them, per second and
// in a burst.
const (
	linesRate  = 5
	linesBurst = 50
)

// logLimited logs the behaviour of clients, unless there are too many lines. The next
// line that is written counts the dropped ones.
func (s *Server) logLimited(level slog.Level, text string, args ...any) {
	if !s.log.Enabled(context.Background(), level) {
		return
	}
	if !s.lines.Allow() {
		s.unsaid.Add(1)
		return
	}
	if n := s.unsaid.Swap(0); n > 0 {
		args = append(args, "left_out", n)
	}
	s.log.Log(context.Background(), level, text, args...)
}

// logger forwards the log of the server's library.
type logger struct {
	s     *Server
	fatal chan string // the first thing that ends the server
}

// Errorf gets mostly mistakes of clients, which are no errors of this program.
func (l logger) Errorf(format string, v ...any) { l.warn(format, v) }

func (l logger) Warnf(format string, v ...any) {
	// Corral's clients begin with TLS as required: this is about clients of other
	// kinds.
	if strings.Contains(format, "TLS Handshake First") {
		l.debug(format, v)
		return
	}
	l.warn(format, v)
}

func (l logger) warn(format string, v []any) {
	l.s.logLimited(slog.LevelWarn, "message server: "+fmt.Sprintf(format, v...))
}

func (l logger) Noticef(format string, v ...any) { l.debug(format, v) }
func (l logger) Debugf(format string, v ...any)  { l.debug(format, v) }
func (l logger) Tracef(format string, v ...any)  { l.debug(format, v) }

func (l logger) debug(format string, v []any) {
	if l.s.log.Enabled(context.Background(), slog.LevelDebug) {
		l.s.log.Debug("message server: " + fmt.Sprintf(format, v...))
	}
}

func (l logger) Fatalf(format string, v ...any) {
	text := fmt.Sprintf(format, v...)
	turn.Offer(l.fatal, text)
	l.s.log.Error("message server: " + text)
}
