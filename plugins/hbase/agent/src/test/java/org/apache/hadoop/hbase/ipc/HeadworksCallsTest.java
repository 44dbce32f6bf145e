package org.apache.hadoop.hbase.ipc;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import org.apache.hadoop.hbase.shaded.protobuf.generated.ClientProtos.MultiResponse;
import org.apache.hadoop.hbase.shaded.protobuf.generated.ClientProtos.RegionActionResult;
import org.apache.hadoop.hbase.shaded.protobuf.generated.ClientProtos.ResultOrException;
import org.apache.hadoop.hbase.shaded.protobuf.generated.HBaseProtos.NameBytesPair;
import org.junit.jupiter.api.Test;

class HeadworksCallsTest {
    private static NameBytesPair exception(String name) {
        return NameBytesPair.newBuilder().setName(name).build();
    }

    private static RegionActionResult region(ResultOrException... each) {
        RegionActionResult.Builder region = RegionActionResult.newBuilder();
        for (ResultOrException one : each) {
            region.addResultOrException(one);
        }
        return region.build();
    }

    private static MultiResponse batch(RegionActionResult... regions) {
        MultiResponse.Builder batch = MultiResponse.newBuilder();
        for (RegionActionResult one : regions) {
            batch.addRegionActionResult(one);
        }
        return batch.build();
    }

    @Test
    void theFirstExceptionOfABatchIsThatOfARegionOrOfARow() {
        ResultOrException well = ResultOrException.newBuilder().setIndex(0).build();
        ResultOrException busy =
                ResultOrException.newBuilder().setIndex(1).setException(exception("org.apache.hadoop.hbase.RegionTooBusyException")).build();
        RegionActionResult moved =
                RegionActionResult.newBuilder().setException(exception("org.apache.hadoop.hbase.NotServingRegionException")).build();
        assertNull(HeadworksCalls.exception(batch()));
        assertNull(HeadworksCalls.exception(batch(region(well), region())));
        assertEquals("RegionTooBusyException", HeadworksCalls.exception(batch(region(well, busy), moved)));
        assertEquals("NotServingRegionException", HeadworksCalls.exception(batch(region(well), moved, region(busy))));
        RegionActionResult other = RegionActionResult.newBuilder().setException(exception("Plain")).build();
        assertEquals("Plain", HeadworksCalls.exception(batch(other)));
    }
}
