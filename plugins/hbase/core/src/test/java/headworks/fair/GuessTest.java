package headworks.fair;

import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

class GuessTest {
    @Test
    void attemptsThatMostlyEndInVainAreMadeNowAndThen() {
        Guess guess = new Guess();
        int vain = 0;
        for (int get = 0; get < 6_400; get++) {
            if (guess.isWorthIt(1, 7)) {
                guess.learn(1, 7, false);
                vain++;
            }
        }
        assertTrue(vain >= 100 && vain <= 130, vain + " of 6400: some until it is known, and one of 64");
        assertTrue(guess.isWorthIt(2, 7) && guess.isWorthIt(1, 9), "other tenants and regions are tried");
        int got = 0;
        for (int get = 0; get < 6_400; get++) {
            if (guess.isWorthIt(1, 7)) {
                guess.learn(1, 7, true);
                got++;
            }
        }
        assertTrue(got > 6_000, "a region that comes into the cache is found out: " + got);
    }
}
