package engines

import (
	"context"
	"errors"
	"log/slog"

	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/pathenv"
	"github.com/corral-exec/corral/sandbox"
)

// A Sandbox is a sandbox with a connection to its engine that is its own.
type Sandbox struct {
	*sandbox.Executor
	engine Engine
}

// OpenSandbox opens a sandbox on the engine that Auto is. It is sandbox.New with
// these defaults, which cfg can replace one by one:
//
//   - Engine: as [Open] chooses it; Close closes it.
//   - StateDir: pathenv.ProgramStateDir.
//   - EnsureImage: Corral's own images are built, any other is pulled. Building
//     one takes a minute or two, once; its steps go to cfg.Log.
//
// No container is made before the first command.
func OpenSandbox(ctx context.Context, cfg sandbox.Config) (*Sandbox, error) {
	s := &Sandbox{}
	var err error
	if cfg.StateDir == "" {
		if cfg.StateDir, err = pathenv.ProgramStateDir(); err != nil {
			return nil, err
		}
	}
	if cfg.Engine == nil {
		if s.engine, err = Open(ctx, Auto); err != nil {
			return nil, err
		}
		cfg.Engine = s.engine
	}
	if cfg.EnsureImage == nil {
		if e, ok := cfg.Engine.(interface{ Images() images.Engine }); ok {
			cfg.EnsureImage = ensure(e.Images(), cfg.Log)
		}
	}
	if s.Executor, err = sandbox.New(cfg); err != nil {
		return nil, errors.Join(err, s.closeEngine())
	}
	return s, nil
}

// Close is that of sandbox.Executor, and closes the connection to the engine.
func (s *Sandbox) Close() error { return errors.Join(s.Executor.Close(), s.closeEngine()) }

func (s *Sandbox) closeEngine() error {
	if s.engine == nil {
		return nil
	}
	return s.engine.Close()
}

// ensure gets images. The log has the first event of each phase, and warnings.
func ensure(engine images.Engine, log *slog.Logger) func(context.Context, string) error {
	store := images.Store{Engine: engine}
	return func(ctx context.Context, image string) error {
		if log == nil {
			_, err := store.Ensure(ctx, image, nil)
			return err
		}
		var phase images.Phase
		_, err := store.Ensure(ctx, image, func(e images.Event) {
			switch {
			case e.Warning:
				log.Warn(e.Message, "image", e.Image)
			case e.Phase != phase:
				log.Info(e.Message, "image", e.Image)
			}
			phase = e.Phase
		})
		return err
	}
}
