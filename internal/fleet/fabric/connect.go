package fabric

import (
	"cmp"
	"errors"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
)

// ConnectOptions are the options of a connection for this protocol. Messages that
// cannot be sent now are dropped, since they are asked for again. The client reconnects
// without limit.
func ConnectOptions(log *slog.Logger) []nats.Option {
	log = cmp.Or(log, slog.New(slog.DiscardHandler))
	return []nats.Option{
		nats.ReconnectBufSize(-1),
		nats.MaxReconnects(-1),
		nats.IgnoreAuthErrorAbort(), // the server's operator may let it in again
		nats.ReconnectWait(100 * time.Millisecond),
		nats.ReconnectJitter(100*time.Millisecond, 500*time.Millisecond),
		nats.PingInterval(5 * time.Second),
		nats.MaxPingsOutstanding(2),
		nats.Timeout(5 * time.Second),
		nats.FlusherTimeout(10 * time.Second),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				log.Warn("the connection to the message server was cut", "error", err)
			}
		}),
		nats.ReconnectHandler(func(c *nats.Conn) {
			log.Info("connected to the message server again", "server", c.ConnectedUrlRedacted())
		}),
		nats.ErrorHandler(func(_ *nats.Conn, s *nats.Subscription, err error) {
			if errors.Is(err, nats.ErrSlowConsumer) {
				return // dropped messages are asked for again
			}
			subject := ""
			if s != nil {
				subject = s.Subject
			}
			log.Warn("the message server reports an error", "subject", subject, "error", err)
		}),
	}
}
