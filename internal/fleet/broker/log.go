package broker

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
)

// Every program that can connect can have lines written. This is how many there are
// a second, and at a time.
const (
	linesRate  = 5
	linesBurst = 50
)

// say writes a line about what others do, unless there are too many. The next
// one that is written counts those that were not.
func (s *Server) say(level slog.Level, text string, args ...any) {
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

// logger passes on what the server's library logs.
type logger struct {
	s     *Server
	fatal chan string // the first thing that ends the server
}

// Errorf gets mostly what clients do wrong, which is no error of this program.
func (l logger) Errorf(format string, v ...any) { l.warn(format, v) }

func (l logger) Warnf(format string, v ...any) {
	// All who connect do what it asks for: it is about clients of other kinds.
	if strings.Contains(format, "TLS Handshake First") {
		l.debug(format, v)
		return
	}
	l.warn(format, v)
}

func (l logger) warn(format string, v []any) {
	l.s.say(slog.LevelWarn, "message server: "+fmt.Sprintf(format, v...))
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
	select {
	case l.fatal <- text:
	default:
	}
	l.s.log.Error("message server: " + text)
}
