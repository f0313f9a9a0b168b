package config

import (
	"context"
	"strings"

	"github.com/corral-exec/corral"
)

// A Caller is on whose behalf something is asked for, as far as that is known. An
// agent platform says it of its own users: a program that may call the gateway is
// trusted to say it.
type Caller struct {
	Sender Sender
	Model  string // such as openai/gpt-5.2
	// Session is the conversation, by a key of the platform's. Empty: the
	// agent's main one.
	Session string
}

type callerKey struct{}

// WithCaller notes a caller for what is done with ctx.
func WithCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerFrom is the caller that ctx has; the zero Caller if there is none.
func CallerFrom(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c
}

// Bounds of what is said of callers, in bytes.
const (
	maxSender  = 512
	maxModel   = 256
	maxSession = 512
)

// ParseSession reads the key of a conversation, which may be empty. The error is
// ErrInvalid.
func ParseSession(key string) (string, error) {
	key = strings.TrimSpace(key)
	if len(key) > maxSession {
		return "", corral.Errorf(corral.ErrInvalid, "", "the session's key has %d bytes; %d are the most", len(key), maxSession)
	}
	return key, nil
}

// ParseCaller reads a sender, written PROVIDER:ID, and a model. Both may be
// empty. The error is ErrInvalid.
func ParseCaller(sender, model string) (Caller, error) {
	c := Caller{Model: strings.TrimSpace(model)}
	provider, id, ok := strings.Cut(sender, ":")
	c.Sender.Provider, c.Sender.ID = strings.TrimSpace(provider), strings.TrimSpace(id)
	switch {
	case len(sender) > maxSender:
		return Caller{}, corral.Errorf(corral.ErrInvalid, "", "the sender has %d bytes; %d are the most", len(sender), maxSender)
	case len(model) > maxModel:
		return Caller{}, corral.Errorf(corral.ErrInvalid, "", "the model has %d bytes; %d are the most", len(model), maxModel)
	case strings.TrimSpace(sender) == "":
		c.Sender = Sender{}
	case !ok || c.Sender.Provider == "" || c.Sender.ID == "":
		return Caller{}, corral.Errorf(corral.ErrInvalid, "write it like telegram:123456789", "%q is no sender", shorten(sender))
	}
	return c, nil
}

// String is the sender as ParseCaller reads it; empty if nothing is known.
func (s Sender) String() string {
	if s.Provider == "" && s.ID == "" {
		return ""
	}
	return s.Provider + ":" + s.ID
}
