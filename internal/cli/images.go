package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/internal/cli/app"
	"github.com/corral-exec/corral/internal/cmdline"
	"github.com/corral-exec/corral/internal/daemon"
	"github.com/corral-exec/corral/internal/words"
)

// imageRow is an image as corral images prints it.
type imageRow struct {
	Name    string    `json:"name"`
	ID      string    `json:"id"`
	Tags    []string  `json:"tags"`
	Arch    string    `json:"arch,omitempty"`
	Size    int64     `json:"size"` // bytes on disk
	Created time.Time `json:"created"`
	Own     bool      `json:"own"`   // Corral built it
	Stale   bool      `json:"stale"` // and this version would build another
}

func newImageRow(i images.Image) imageRow {
	tags := i.Tags
	if tags == nil {
		tags = []string{}
	}
	return imageRow{Name: i.Ref, ID: i.ID, Tags: tags, Arch: i.Arch, Size: i.Size, Created: i.Created, Own: i.Recipe != "", Stale: i.Stale}
}

func (a commands) imagesCommand() *cobra.Command {
	cmd := app.Group(&cobra.Command{
		Use:   "images",
		Short: "List, get, build and remove the images of sandboxes",
		Long: `List, get, build and remove the images that sandboxes run on.

A sandbox gets its image by itself when it is first needed. Corral's own images
are built on this machine: ` + images.Default + ` (the default),
` + images.Base + `, ` + images.Common + `, ` + images.Code + `
and ` + images.Busybox + `.
Any other is pulled from its registry.`,
	}, a.imagesList(), a.imagesEnsure(), a.imagesBuild(), a.imagesSBOM(), a.imagesRemove())
	a.AddEngineFlag(cmd, cmd.PersistentFlags())
	return cmd
}

func (a commands) imagesList() *cobra.Command {
	return app.WithJSON(&cobra.Command{
		Use: "ls [flags]", Short: "List Corral's own images", Args: cmdline.NoArgs,
		RunE: app.RunWith(a.withStore, func(ctx context.Context, store images.Store, _ []string) error {
			list, err := store.List(ctx)
			if err != nil {
				return err
			}
			rows := make([]imageRow, 0, len(list))
			for _, i := range list {
				rows = append(rows, newImageRow(i))
			}
			if a.JSON() {
				return a.PrintJSON(rows, nil)
			}
			return a.printImages(rows)
		}),
	})
}

func (a commands) printImages(rows []imageRow) error {
	if len(rows) == 0 {
		_, err := fmt.Fprintln(a.Stderr, "There is no image of Corral's own yet. The first sandbox builds one; corral images ensure does it now.")
		return err
	}
	w := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tID\tSIZE\tCREATED\tSTATE")
	for _, r := range rows {
		state := "current"
		if r.Stale {
			state = "stale"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", r.Name, shortID(r.ID), words.Bytes(r.Size), r.Created.Local().Format("2006-01-02 15:04"), state)
	}
	return w.Flush()
}

func (a commands) imagesEnsure() *cobra.Command {
	return a.getImage("ensure", "Get an image, unless the engine has it",
		`Make sure that the engine has an image: what is there is left alone, Corral's own
images are built when they are missing or stale, and any other is pulled.`,
		images.Store.Ensure)
}

func (a commands) imagesBuild() *cobra.Command {
	var packages string
	cmd := a.getImage("build", "Build one of Corral's own images anew",
		`Build one of Corral's own images, also if the engine has it: with the packages as
they are now, or with --packages those of an earlier build. The same packages give
the same image, with the same ID. The image it replaces is removed, unless a
container uses it.`,
		func(store images.Store, ctx context.Context, ref string, progress images.Progress) (_ images.Image, err error) {
			if store.Pins, err = readPins(packages); err != nil {
				return images.Image{}, err
			}
			return store.Build(ctx, ref, progress)
		})
	cmd.Flags().StringVar(&packages, "packages", "", "`FILE`: build it of exactly the packages that this SBOM of an earlier image lists")
	cmdline.Must(cmd.MarkFlagFilename("packages", "json"))
	return cmd
}

func readPins(file string) ([]images.Package, error) {
	if file == "" {
		return nil, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, corral.Errorf(corral.ErrInvalid, "name a file that corral images sbom printed", "cannot read --packages: %w", err)
	}
	defer f.Close() // it was only read
	return images.ReadPackages(f)
}

func (a commands) imagesSBOM() *cobra.Command {
	return &cobra.Command{
		Use: "sbom [flags] [NAME]", Short: "Print what one of Corral's own images is made of",
		Long: `Print the software bill of materials of one of Corral's own images of Debian: an
SPDX 2.3 document in JSON, which lists its packages with version, architecture,
digest and license. It is kept in the image. corral images build --packages takes
it for another build of the same.

Without a name it is the default image, ` + images.Default + `.`,
		Args: cmdline.AtMost(1), ValidArgsFunction: app.First(a.CompleteImages),
		RunE: func(cmd *cobra.Command, args []string) error {
			ref := images.Default
			if len(args) > 0 {
				ref = args[0]
			}
			return a.withStore(cmd.Context(), func(ctx context.Context, store images.Store) error {
				text, err := store.SBOM(ctx, ref)
				if err != nil {
					return err
				}
				_, err = fmt.Fprintln(a.Stdout, strings.TrimSpace(string(text)))
				return err
			})
		},
	}
}

type getImage func(images.Store, context.Context, string, images.Progress) (images.Image, error)

func (a commands) getImage(name, short, long string, get getImage) *cobra.Command {
	return app.WithJSON(&cobra.Command{
		Use: name + " [flags] [NAME]", Short: short, Long: long + "\n\nWithout a name it is the default image, " + images.Default + ".",
		Args: cmdline.AtMost(1), ValidArgsFunction: app.First(a.CompleteImages),
		RunE: func(cmd *cobra.Command, args []string) error {
			ref := images.Default
			if len(args) > 0 {
				ref = args[0]
			}
			return a.withStore(cmd.Context(), func(ctx context.Context, store images.Store) error {
				progress := a.Progress()
				img, err := get(store, ctx, ref, progress.Show)
				progress.Finish()
				if err != nil {
					return err
				}
				if a.JSON() {
					return a.PrintJSON(newImageRow(img), nil)
				}
				_, err = fmt.Fprintf(a.Stdout, "%s  %s  %s\n", cmp.Or(img.Ref, ref), shortID(img.ID), words.Bytes(img.Size))
				return err
			})
		},
	})
}

func (a commands) imagesRemove() *cobra.Command {
	return app.WithJSON(&cobra.Command{
		Use: "rm [flags] NAME...", Short: "Remove Corral's own images, by name or ID",
		Args: cmdline.AtLeastOne("name of an image"), ValidArgsFunction: a.CompleteOwnImages,
		RunE: app.RunWith(a.withStore, func(ctx context.Context, store images.Store, args []string) error {
			return a.PrintRemoved(app.Each(args, func(ref string) (string, error) {
				err := store.Remove(ctx, ref)
				if errors.Is(err, images.ErrNoImage) {
					err = corral.Errorf(corral.ErrInvalid, "corral images ls says which there are", "%w", err)
				}
				return ref, err
			}))
		}),
	})
}

func (a commands) withStore(ctx context.Context, do func(context.Context, images.Store) error) error {
	return a.WithEngine(ctx, func(ctx context.Context, eng daemon.Engine) error {
		return do(ctx, images.Store{Engine: eng.Images()})
	})
}

// shortID is enough of an ID to tell images apart.
func shortID(id string) string {
	id = strings.TrimPrefix(id, "sha256:")
	return id[:min(12, len(id))]
}
