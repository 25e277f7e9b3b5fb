package attach

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/objects"
	"github.com/globalfs/globalfs/internal/topology"
)

// Objects are the regions' stores in object storage.
type Objects map[topology.Region]*objects.Store

// OpenObjects opens the object storage of all regions; nil: the blocks are not in object storage. Existing
// means that there are blocks already.
func OpenObjects(ctx context.Context, plan *topology.Cluster, existing bool) (Objects, error) {
	if plan.Objects == nil {
		return nil, nil
	}
	stores := Objects{}
	for _, region := range plan.Regions {
		cfg := objectsConfig(plan, region)
		cfg.Existing = existing
		store, err := objects.Open(ctx, cfg)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("blocks of region %s: %w", region, err), stores.Close())
		}
		stores[region] = store
	}
	return stores, nil
}

func objectsConfig(plan *topology.Cluster, region topology.Region) objects.Config {
	at := plan.Objects.Of(region)
	return objects.Config{
		Endpoint: at.Endpoint, Bucket: at.Bucket, Prefix: at.Prefix, Region: at.Region, PathStyle: at.PathStyle, Credentials: at.Credentials,
		Cluster: string(plan.Identity()) + " region " + string(region), Timeout: objects.DefaultTimeout,
	}
}

// OpenObjectsOfClient is like OpenObjects, for a client: the stores must exist. On a machine without
// credentials it returns nil, and the client asks servers to sign its requests to the object storage.
func OpenObjectsOfClient(ctx context.Context, plan *topology.Cluster, logger *slog.Logger) (Objects, error) {
	stores, err := OpenObjects(ctx, plan, true)
	if errors.Is(err, objects.ErrNoCredentials) {
		logger.Info("no credentials for the object storage: servers sign the requests of this mount")
		return nil, nil
	}
	return stores, err
}

// Close ends the access to all stores.
func (s Objects) Close() (err error) {
	for _, store := range s {
		err = errors.Join(err, store.Close())
	}
	return err
}

// ExistingObjects returns the regions' stores of a cluster with its blocks in object storage; nil for other
// clusters. The caller calls end when the stores are not needed any more.
func ExistingObjects(ctx context.Context, plan *topology.Cluster) (regions map[topology.Region]block.Store, end func() error, err error) {
	stores, err := OpenObjects(ctx, plan, true)
	if stores == nil || err != nil {
		return nil, func() error { return nil }, err
	}
	regions = map[topology.Region]block.Store{}
	for region, store := range stores {
		regions[region] = store
	}
	return regions, stores.Close, nil
}
