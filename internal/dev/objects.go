package dev

import (
	"context"
	"errors"
	"fmt"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/objects"
	"github.com/globalfs/globalfs/internal/topology"
)

// objectStores are the regions' stores in object storage.
type objectStores map[topology.Region]*objects.Store

// openObjects reaches the object storage of all regions; nil if the blocks are not there. Existing says that there are
// blocks already.
func openObjects(ctx context.Context, plan *topology.Cluster, existing bool) (objectStores, error) {
	if plan.Objects == nil {
		return nil, nil
	}
	stores := objectStores{}
	for _, region := range plan.Regions {
		at := plan.Objects.Of(region)
		store, err := objects.Open(ctx, objects.Config{
			Endpoint: at.Endpoint, Bucket: at.Bucket, Prefix: at.Prefix, Region: at.Region, PathStyle: at.PathStyle, Credentials: at.Credentials,
			Cluster: string(plan.Identity()) + " region " + string(region), Existing: existing, Timeout: objects.DefaultTimeout,
		})
		if err != nil {
			return nil, errors.Join(fmt.Errorf("blocks of region %s: %w", region, err), stores.close())
		}
		stores[region] = store
	}
	return stores, nil
}

func (s objectStores) close() (err error) {
	for _, store := range s {
		err = errors.Join(err, store.Close())
	}
	return err
}

// Objects gives the regions' stores of a cluster that has its blocks in object storage; nil if it has not. The caller
// calls end when they are not needed any more.
func Objects(ctx context.Context, plan *topology.Cluster) (regions map[topology.Region]block.Store, end func() error, err error) {
	stores, err := openObjects(ctx, plan, true)
	if stores == nil || err != nil {
		return nil, func() error { return nil }, err
	}
	regions = map[topology.Region]block.Store{}
	for region, store := range stores {
		regions[region] = store
	}
	return regions, stores.close, nil
}
